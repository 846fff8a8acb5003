// Bundles the tests into build/ and runs them.

import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { build } from "esbuild";

rmSync("build", { recursive: true, force: true });
await build({
  entryPoints: readdirSync("test").map((name) => `test/${name}`),
  outdir: "build",
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  format: "esm",
  logLevel: "warning",
});
const made = readdirSync("build").map((name) => `build/${name}`);
process.exit(spawnSync(process.execPath, ["--test", ...made], { stdio: "inherit" }).status ?? 1);
