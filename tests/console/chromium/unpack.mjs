// Unpacks the browser that the package @sparticuz/chromium contains into the folder of this file: the program,
// the libraries that a bare system lacks, and a font. It is run by make, and by nobody else.
import { createReadStream, createWriteStream } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createBrotliDecompress } from "node:zlib";
import { extract } from "tar-fs";

const home = import.meta.dirname;
const unpack = (name, target) =>
  pipeline(createReadStream(join(home, "node_modules/@sparticuz/chromium/bin", name)), createBrotliDecompress(), target);

await unpack("chromium.br", createWriteStream(join(home, "chromium"), { mode: 0o755 }));
await unpack("al2023.tar.br", extract(home));
await unpack("swiftshader.tar.br", extract(home));
await unpack("fonts.tar.br", extract(home));
// The package's own names places of the machines that it is made for.
await writeFile(
  join(home, "fonts.conf"),
  `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>${join(home, "fonts-cache")}</cachedir>
</fontconfig>
`,
);
