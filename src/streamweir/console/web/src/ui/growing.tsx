// Text that grows while it is read. What is new is appended to the last block and long text is cut into blocks at line
// ends, so that a long answer costs no more per piece than a short one.
import { useLayoutEffect, useRef } from "preact/hooks";

const BLOCK = 2000;

export function Growing(props: { text: string; class?: string }) {
  const box = useRef<HTMLDivElement>(null);
  const shown = useRef("");
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const { text } = props;
    const grows = text.length >= shown.current.length && text.startsWith(shown.current);
    if (!grows) element.replaceChildren();
    append(element, grows ? text.slice(shown.current.length) : text);
    shown.current = text;
  }, [props.text]);
  return <div ref={box} class={`growing ${props.class ?? ""}`} dir="auto" />;
}

function append(element: HTMLElement, more: string): void {
  let rest = more;
  while (rest) {
    let last = element.lastElementChild?.firstChild;
    if (!(last instanceof Text) || (last.length >= BLOCK && last.data.endsWith("\n"))) {
      last = document.createTextNode("");
      element.appendChild(document.createElement("div")).appendChild(last);
    }
    const room = Math.max(0, BLOCK - (last as Text).length);
    const end = rest.indexOf("\n", room);
    const piece = end < 0 ? rest : rest.slice(0, end + 1);
    (last as Text).appendData(piece);
    rest = rest.slice(piece.length);
  }
}
