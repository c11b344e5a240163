// Compiles the tests with esbuild, runs them with node's own runner, and sums up in a line.
import { build } from "esbuild";
import { readdir, rm } from "node:fs/promises";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "../../build/unit");
await rm(out, { recursive: true, force: true });
const tests = (await readdir(here)).filter((name) => name.endsWith(".test.ts"));
await build({
  entryPoints: tests.map((name) => join(here, name)),
  outdir: out,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
});

const counts = { passed: 0, failed: 0 };
const stream = run({ files: tests.map((name) => join(out, name.replace(/\.ts$/, ".mjs"))), concurrency: true });
stream.on("test:pass", () => counts.passed++);
stream.on("test:fail", () => counts.failed++);
stream.compose(new spec()).pipe(process.stdout);
stream.on("end", () => {
  process.exitCode = counts.failed > 0 || counts.passed === 0 ? 1 : 0;
});
process.on("exit", () => console.log(`modules: ${counts.passed} passed, ${counts.failed} failed`));
