// The official npm package of OpenAI against a server: `node openai_node.mjs FOLDER URL MODEL`, where FOLDER has the
// package in node_modules.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, url, model] = process.argv.slice(2);
const found = createRequire(`${folder}/package.json`).resolve("openai");
const { default: OpenAI } = await import(pathToFileURL(found));
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });

const wishes = {
  model,
  messages: [{ role: "user", content: "Tell me a story." }],
  temperature: 0,
  max_tokens: 12,
};
const whole = await client.chat.completions.create(wishes);
const words = whole.choices[0].message.content;
assert.ok(words.length > 0);
assert.equal(whole.usage.completion_tokens, 12);

let streamed = "";
for await (const chunk of await client.chat.completions.create({ ...wishes, stream: true })) {
  streamed += chunk.choices[0]?.delta?.content ?? "";
}
assert.equal(streamed, words);

const models = await client.models.list();
assert.ok(models.data.some((entry) => entry.id === model));

await assert.rejects(client.chat.completions.create({ ...wishes, temperature: 9 }), (error) => {
  assert.ok(error instanceof OpenAI.BadRequestError);
  assert.equal(error.param, "temperature");
  return true;
});
await assert.rejects(client.chat.completions.create({ ...wishes, model: "gpt-9" }), OpenAI.NotFoundError);

// Leaving a stream ends the answer.
const stream = await client.chat.completions.create({ ...wishes, max_tokens: 200, stream: true });
for await (const _ of stream) break;
