// Builds the pages into a folder: `node build.mjs dist`. Same source, same bytes: `check` compares what this writes
// with what is committed.
import { build } from "esbuild";
import { copyFile, mkdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2];
if (!out) {
  console.error("usage: node build.mjs FOLDER");
  process.exit(2);
}

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: ["src/chat.tsx", "src/status.tsx", "src/theme.ts", "src/chat.css", "src/status.css"],
  outdir: join(process.cwd(), out),
  bundle: true,
  minify: true,
  charset: "utf8",
  format: "esm",
  target: ["chrome123", "firefox120", "safari17.5"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
});
for (const name of ["chat.html", "status.html", "icon.svg"]) {
  await copyFile(join(here, "src", name), join(out, name));
}
