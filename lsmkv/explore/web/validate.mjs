// Checks files of JSON against a structure of the contract: node validate.mjs Page a.json b.json

import { readFileSync } from "node:fs";
import Ajv from "ajv/dist/2020.js";

const [root, ...paths] = process.argv.slice(2);
const schema = JSON.parse(readFileSync(new URL("contract.schema.json", import.meta.url), "utf8"));
const ajv = new Ajv({ allErrors: true });
const check = ajv.compile({ ...schema, anyOf: undefined, $ref: `#/$defs/${root}` });
let failed = 0;
for (const path of paths) {
  if (check(JSON.parse(readFileSync(path, "utf8")))) continue;
  failed += 1;
  console.error(path, ajv.errorsText(check.errors).slice(0, 2000));
}
process.exit(failed ? 1 : 0);
