// The images of a prompt or turn: chosen on this machine, shown small, taken away again. They are drawn, not loaded: the
// page may load images of its server only.
import { useEffect, useRef, useState } from "preact/hooks";
import { bytes } from "../../lib/format";
import { dataOf, IMAGE_TYPES, sizeOf, whyNot, type Image } from "../../lib/images";
import { Button } from "../../ui/parts";

export function ImageList(props: { images: readonly Image[]; onChange: (images: Image[]) => void }) {
  const { images } = props;
  if (!images.length) return null;
  return (
    <ul class="images" aria-label="Images">
      {images.map((image, place) => (
        <li key={place}>
          <Thumbnail image={image} />
          <span class="clipped" title={image.name}>
            {image.name}
          </span>
          {sizeOf(image) > 0 && <span class="muted small nowrap">{bytes(sizeOf(image))}</span>}
          <Button small tone="quiet" aria-label={`Remove ${image.name}`} onClick={() => props.onChange(images.filter((each) => each !== image))}>
            ✕
          </Button>
        </li>
      ))}
    </ul>
  );
}

export function ImagePicker(props: { images: readonly Image[]; onChange: (images: Image[]) => void }) {
  const input = useRef<HTMLInputElement>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const add = async (files: File[]) => {
    const why = whyNot(files, props.images);
    setProblem(why);
    if (why !== null) return;
    try {
      props.onChange([...props.images, ...(await Promise.all(files.map(read)))]);
    } catch {
      setProblem("The file cannot be read.");
    }
  };
  return (
    <>
      <Button small tone="quiet" onClick={() => input.current?.click()}>
        Add images
      </Button>
      <input
        ref={input}
        type="file"
        hidden
        multiple
        aria-label="Images"
        accept={IMAGE_TYPES.join(",")}
        onChange={(event) => {
          const files = [...(event.currentTarget.files ?? [])];
          event.currentTarget.value = ""; // the same file may be chosen again
          if (files.length) void add(files);
        }}
      />
      {problem && (
        <span class="small bad" role="alert">
          {problem}
        </span>
      )}
    </>
  );
}

function read(file: File): Promise<Image> {
  return new Promise((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done({ name: file.name, url: String(reader.result) });
    reader.onerror = () => fail(reader.error);
    reader.readAsDataURL(file);
  });
}

const SIDE = 36;

function Thumbnail(props: { image: Image }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [isOdd, setIsOdd] = useState(false);
  useEffect(() => {
    draw(props.image, canvas.current).then(setIsOdd, () => setIsOdd(true));
  }, [props.image.url]);
  return (
    <>
      <canvas ref={canvas} width={SIDE} height={SIDE} aria-hidden="true" />
      {isOdd && <span class="small warn">not shown</span>}
    </>
  );
}

// Whether it could not be.
async function draw(image: Image, canvas: HTMLCanvasElement | null): Promise<boolean> {
  const data = dataOf(image);
  const context = canvas?.getContext("2d");
  if (!data || !context) return true;
  const found = await createImageBitmap(new Blob([Uint8Array.from(atob(data.base64), (each) => each.charCodeAt(0))], { type: data.type }));
  const scale = Math.min(SIDE / found.width, SIDE / found.height);
  const [width, height] = [found.width * scale, found.height * scale];
  context.clearRect(0, 0, SIDE, SIDE);
  context.drawImage(found, (SIDE - width) / 2, (SIDE - height) / 2, width, height);
  found.close();
  return false;
}
