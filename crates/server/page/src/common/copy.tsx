/** A button that copies a text, and says that it did. */
import { Component, type ComponentChild } from "preact";
import { Icon } from "./icons";

const SHOWN_MILLISECONDS = 1500;

interface Properties {
  text: string;
  label: string;
}

export class CopyButton extends Component<Properties, { copied: boolean }> {
  override state = { copied: false };
  private timer: ReturnType<typeof setTimeout> | undefined;

  private copy = async (): Promise<void> => {
    await copyText(this.props.text);
    this.setState({ copied: true });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.setState({ copied: false }), SHOWN_MILLISECONDS);
  };

  override componentWillUnmount(): void {
    clearTimeout(this.timer);
  }

  override render(): ComponentChild {
    const label = this.state.copied ? "Copied" : this.props.label;
    return (
      <button type="button" class="icon copy" aria-label={label} title={label} onClick={this.copy}>
        <Icon name={this.state.copied ? "check" : "copy"} />
      </button>
    );
  }
}

/** The clipboard, or on plain http from another machine, where browsers have none, a selection that is copied. */
async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "offscreen";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
