/**
 * A chat with the server: a conversation's messages and settings as a request of `/v1/chat/completions`, and its
 * stream as pieces of an answer.
 */
import type { Alternative, Message, Part, Settings, Token } from "../conversation/types";
import { ApiError, errorText, reason, request } from "./client";
import { events } from "./events";

/** What came with one event of the stream. */
export interface Piece {
  content: string;
  reasoning: string;
  tokens: Token[];
  finish?: string;
  usage?: { promptTokens: number; cachedTokens: number; generatedTokens: number };
}

/** What is to be answered. When the last message is the assistant's, the answer goes on from its end. */
export interface Question {
  model: string;
  settings: Settings;
  messages: readonly Pick<Message, "role" | "content" | "reasoning">[];
  /** Whether to ask for the probabilities of tokens and their alternatives. */
  tokens: boolean;
}

/** How many alternatives of a token are asked for. */
export const ALTERNATIVES = 10;

/** The request's body. What a person left open is not sent: the server and the model know better. */
export function body(question: Question): Record<string, unknown> {
  const { settings } = question;
  const messages: Record<string, string>[] = settings.system ? [{ role: "system", content: settings.system }] : [];
  question.messages.forEach((message, index) => {
    const sent: Record<string, string> = { role: message.role, content: message.content };
    // Thoughts of earlier turns are not repeated to the model; those of an answer that goes on are part of it.
    if (message.reasoning && index === question.messages.length - 1) sent.reasoning_content = message.reasoning;
    messages.push(sent);
  });
  const request: Record<string, unknown> = {
    model: question.model,
    messages,
    stream: true,
    stream_options: { include_usage: true },
    temperature: settings.temperature,
    top_p: settings.topP,
    top_k: settings.topK,
    min_p: settings.minP,
    max_completion_tokens: settings.maxTokens,
    seed: settings.seed,
    reasoning_effort: settings.reasoningEffort,
  };
  if (question.messages.at(-1)?.role === "assistant") {
    request.continue_final_message = true;
  }
  if (question.tokens) {
    request.logprobs = true;
    request.top_logprobs = ALTERNATIVES;
  }
  return Object.fromEntries(Object.entries(request).filter(([, value]) => value !== undefined));
}

/** The pieces of an answer as they come. Ends after the server's last event, or with an `ApiError`. */
export async function* answer(question: Question, signal: AbortSignal): AsyncGenerator<Piece> {
  const response = await request("/v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body(question)),
    signal,
  });
  if (!response.body) throw new ApiError(response.status, "The server's answer has no body.");
  const reader = new PieceReader();
  try {
    for await (const event of events(response.body)) {
      if (event === "[DONE]") return;
      yield reader.read(event);
    }
  } catch (error) {
    if (signal.aborted || error instanceof ApiError) throw error;
    throw new ApiError(0, `The connection broke before the answer's end: ${reason(error)}`);
  }
  if (!reader.finished) throw new ApiError(0, "The connection ended before the answer did.");
}

interface WireToken {
  token: string;
  bytes?: number[] | null;
  logprob: number;
}

interface WireChunk {
  choices?: {
    delta?: { content?: string | null; reasoning_content?: string | null; reasoning?: string | null };
    logprobs?: { content?: (WireToken & { top_logprobs?: WireToken[] })[] | null } | null;
    finish_reason?: string | null;
  }[];
  usage?: {
    prompt_tokens: number;
    completion_tokens: number;
    prompt_tokens_details?: { cached_tokens?: number } | null;
  } | null;
}

/** Reads events one after the other; tokens that came without text belong to the part that goes on after them. */
export class PieceReader {
  finished = false;
  private silent: Omit<Token, "part">[] = [];

  read(event: string): Piece {
    const error = errorText(event);
    if (error !== null) throw new ApiError(0, error);
    let chunk: WireChunk;
    try {
      chunk = JSON.parse(event) as WireChunk;
    } catch {
      throw new ApiError(0, `The server sent what is no JSON: ${event.slice(0, 200)}`);
    }
    const choice = chunk.choices?.[0];
    const content = choice?.delta?.content ?? "";
    const thoughts = choice?.delta?.reasoning_content ?? choice?.delta?.reasoning ?? "";
    const piece: Piece = { content, reasoning: thoughts, tokens: [] };
    for (const token of choice?.logprobs?.content ?? []) {
      this.silent.push({ ...alternative(token), alternatives: (token.top_logprobs ?? []).map(alternative) });
    }
    if (choice?.finish_reason) {
      piece.finish = choice.finish_reason;
      this.finished = true;
    }
    if (content || thoughts || piece.finish) {
      const part: Part = thoughts && !content ? "reasoning" : "content";
      piece.tokens = this.silent.map((token) => ({ ...token, part }));
      this.silent = [];
    }
    if (chunk.usage) {
      piece.usage = {
        promptTokens: chunk.usage.prompt_tokens,
        cachedTokens: chunk.usage.prompt_tokens_details?.cached_tokens ?? 0,
        generatedTokens: chunk.usage.completion_tokens,
      };
    }
    return piece;
  }
}

function alternative(token: WireToken): Alternative {
  return { text: token.token, bytes: token.bytes ?? null, logprob: token.logprob };
}
