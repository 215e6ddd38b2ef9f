// The frame of a page that is seen before one is signed in.
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

export function Gate(props: { title: string; children: ComponentChildren }) {
  useEffect(() => {
    document.title = `${props.title} · Streamweir`;
  }, [props.title]);
  return (
    <main class="signin" id="main">
      <div class="panel">
        <div class="panel-body">
          <h1 class="brand">
            <span class="brand-mark" aria-hidden="true" />
            Streamweir
          </h1>
          {props.children}
        </div>
      </div>
    </main>
  );
}
