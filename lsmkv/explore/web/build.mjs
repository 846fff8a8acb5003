// Bundles the page's script and style into ../assets, which ship in the wheel.  `--out DIR` puts them elsewhere.

import { readFileSync } from "node:fs";
import { build } from "esbuild";

const at = process.argv.indexOf("--out");
const out = at < 0 ? "../assets" : process.argv[at + 1];
const notice = readFileSync("NOTICE.txt", "utf8").trim();

const { metafile } = await build({
  metafile: true,
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
for (const output of Object.values(metafile.outputs)) {
  for (const [path, { bytesInOutput }] of Object.entries(output.inputs)) {
    const library = path.match(/node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1];
    if (library && bytesInOutput > 0 && !notice.includes(library)) {
      throw new Error(`NOTICE.txt lacks the licence of ${library}`);
    }
  }
}
await build({
  entryPoints: { explore: "src/style.css" },
  outdir: out,
  bundle: true,
  minify: true,
  target: "es2022",
  legalComments: "none",
});
