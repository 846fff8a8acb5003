// Bundles the page's script and style into ../assets, which ship in the wheel.  `--out DIR` puts them elsewhere.

import { readFileSync } from "node:fs";
import { build } from "esbuild";

const at = process.argv.indexOf("--out");
const out = at < 0 ? "../assets" : process.argv[at + 1];
const notice = readFileSync("NOTICE.txt", "utf8").trim();

await build({
  entryPoints: { explore: "src/main.ts" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  banner: { js: `/*\n${notice}\n*/` },
});
await build({
  entryPoints: { explore: "src/style.css" },
  outdir: out,
  bundle: true,
  minify: true,
  target: "es2022",
  legalComments: "none",
});
