/** An answer while it grows: what it was before, what has come, and how long it took. */
import type { Piece } from "../api/chat";
import type { Message, Part, Token } from "../conversation/types";

export class Growth {
  finish: string | undefined;
  /** Whether the model is to go on from a text that is already there. */
  readonly hasBeginning: boolean;
  private content: string;
  private reasoning: string;
  private tokens: Token[];
  private readonly start = performance.now();
  private firstToken: number | undefined;
  private usage: Piece["usage"];

  constructor(
    message: Message,
    /** Whether tokens are asked for. */
    readonly withTokens: boolean,
  ) {
    this.content = message.content;
    this.reasoning = message.reasoning;
    this.hasBeginning = this.content !== "" || this.reasoning !== "";
    this.tokens = message.tokens ? [...message.tokens] : [];
    if (!message.tokens) {
      this.addUntold("reasoning", message.reasoning);
      this.addUntold("content", message.content);
    }
  }

  add(piece: Piece): void {
    this.content += piece.content;
    this.reasoning += piece.reasoning;
    this.tokens.push(...piece.tokens);
    if (!this.withTokens) {
      this.addUntold("reasoning", piece.reasoning);
      this.addUntold("content", piece.content);
    }
    if (piece.content || piece.reasoning) this.firstToken ??= performance.now();
    if (piece.finish) this.finish = piece.finish;
    if (piece.usage) this.usage = piece.usage;
  }

  /** Text that came without its tokens stands among them as one, without alternatives. */
  private addUntold(part: Part, text: string): void {
    if (!text) return;
    const last = this.tokens.at(-1);
    if (last && last.part === part && last.bytes === null && last.alternatives.length === 0) {
      this.tokens[this.tokens.length - 1] = { ...last, text: last.text + text };
    } else {
      this.tokens.push({ text, bytes: null, logprob: 0, part, alternatives: [] });
    }
  }

  /** The message as it is now. Tokens only when there is something to tell of them. */
  changes(): Partial<Message> {
    const now = performance.now();
    const changes: Partial<Message> = { content: this.content, reasoning: this.reasoning };
    if (this.tokens.some((token) => token.alternatives.length > 0)) changes.tokens = [...this.tokens];
    if (this.usage) {
      changes.usage = {
        ...this.usage,
        firstTokenSeconds: ((this.firstToken ?? now) - this.start) / 1000,
        seconds: (now - this.start) / 1000,
      };
    }
    return changes;
  }
}
