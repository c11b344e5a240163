/** A dialog: the browser's own, which keeps the focus inside and closes on Escape. */
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface DialogProperties {
  label: string;
  onClose?: () => void;
  children: ComponentChildren;
}

export function Dialog({ label, onClose, children }: DialogProperties): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      aria-label={label}
      onCancel={(event) => {
        event.preventDefault();
        onClose?.();
      }}
      onKeyDown={(event) => event.stopPropagation()}
    >
      {children}
    </dialog>
  );
}
