// What the package openai (npm) sees of a gateway. test_openai_node.py says where to go and where the packages are.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';

const { TVQ_URL, TVQ_GUARDED_URL, TVQ_KEY, TVQ_NODE_PACKAGES } = process.env;
const OpenAI = createRequire(`${TVQ_NODE_PACKAGES}/`)('openai').OpenAI;

const client = new OpenAI({ baseURL: TVQ_URL, apiKey: 'none is needed', maxRetries: 0 });
const fixed = { model: 'bytes', prompt: 'Once upon', seed: 7, max_tokens: 24, ignore_eos: true };
const talk = {
  model: 'chat',
  messages: [{ role: 'user', content: 'Who is there?' }],
  seed: 3,
  max_tokens: 12,
  ignore_eos: true,
};

test('models', async () => {
  const names = [];
  for await (const model of client.models.list()) names.push(model.id);
  assert.deepEqual(names.sort(), ['bytes', 'chat', 'encoder']);
  assert.equal((await client.models.retrieve('bytes')).object, 'model');
});

test('a stream of completions is the same as the whole, with n and usage', async () => {
  const whole = await client.completions.create({ ...fixed, n: 2 });
  assert.equal(whole.choices[0].finish_reason, 'length');
  assert.deepEqual([whole.usage.prompt_tokens, whole.usage.completion_tokens], [9, 48]);
  const texts = ['', ''];
  let usage;
  const stream = await client.completions.create({
    ...fixed,
    n: 2,
    stream: true,
    stream_options: { include_usage: true },
  });
  for await (const event of stream) {
    for (const choice of event.choices) texts[choice.index] += choice.text;
    usage = event.usage ?? usage;
  }
  assert.deepEqual(
    texts,
    whole.choices.map((choice) => choice.text),
  );
  assert.deepEqual(usage, whole.usage);
});

test('stop and logprobs', async () => {
  const choice = (await client.completions.create({ ...fixed, logprobs: 3 })).choices[0];
  assert.equal(choice.logprobs.tokens.length, 24);
  assert.ok(choice.logprobs.token_logprobs.every((value) => value <= 0));
  const stop = choice.text.slice(5, 8);
  const stopped = (await client.completions.create({ ...fixed, stop })).choices[0];
  assert.equal(stopped.text, choice.text.slice(0, choice.text.indexOf(stop)));
  assert.equal(stopped.finish_reason, 'stop');
});

test('conversations, whole, streamed and by the helper of the package', async () => {
  const whole = await client.chat.completions.create({ ...talk, logprobs: true, top_logprobs: 2 });
  const { content, role } = whole.choices[0].message;
  assert.equal(role, 'assistant');
  assert.equal(whole.choices[0].logprobs.content.length, 12);
  assert.ok(whole.choices[0].logprobs.content.every((token) => token.top_logprobs.length === 2));
  let streamed = '';
  for await (const event of await client.chat.completions.create({ ...talk, stream: true })) {
    streamed += event.choices[0].delta.content ?? '';
  }
  assert.equal(streamed, content);
  assert.equal(await client.chat.completions.stream(talk).finalContent(), content);
});

test('embeddings, which the package asks for as base64', async () => {
  const given = { model: 'encoder', input: ['5 7 12', '60'] };
  const packed = await client.embeddings.create(given);
  const plain = await client.embeddings.create({ ...given, encoding_format: 'float' });
  assert.deepEqual(
    packed.data.map((one) => [...one.embedding]),
    plain.data.map((one) => [...Float32Array.from(one.embedding)]),
  );
  assert.deepEqual([plain.data[0].embedding.length, plain.usage.prompt_tokens], [26, 4]);
  await assert.rejects(client.embeddings.create({ ...given, dimensions: 8 }), OpenAI.BadRequestError);
});

test('two calls on a session say what one call says', async () => {
  const { id } = await client.post('/sessions', { body: { model: 'bytes' } });
  const greedy = { model: 'bytes', temperature: 0, ignore_eos: true };
  const first = await client.completions.create({ ...greedy, prompt: 'Once', max_tokens: 6, session_id: id });
  assert.equal(first.session.position, 10);
  let rest = '';
  const stream = await client.completions.create({
    ...greedy,
    prompt: '',
    max_tokens: 6,
    session_id: id,
    stream: true,
  });
  for await (const event of stream) rest += event.choices[0].text;
  const whole = await client.completions.create({ ...greedy, prompt: 'Once', max_tokens: 12 });
  assert.equal(first.choices[0].text + rest, whole.choices[0].text);
  await assert.rejects(
    client.completions.create({ ...greedy, prompt: 'a', session_id: id, expected_version: 99 }),
    OpenAI.ConflictError,
  );
  await client.delete(`/sessions/${id}`);
  await assert.rejects(client.completions.create({ ...greedy, prompt: 'a', session_id: id }), OpenAI.NotFoundError);
});

test('aborting a stream frees the server', { timeout: 60_000 }, async () => {
  const stream = await client.completions.create({ ...fixed, max_tokens: 100_000_000, stream: true });
  for await (const event of stream) {
    assert.equal(event.choices[0].finish_reason, null);
    stream.controller.abort();
  }
  while ((await client.get('/server')).requests_running > 0) await new Promise((done) => setTimeout(done, 10));
});

test('errors are those of the package', async () => {
  const one = { model: 'bytes', prompt: 'a', max_tokens: 1 };
  for (const stream of [false, true]) {
    await assert.rejects(client.completions.create({ ...one, max_tokens: -1, stream }), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.equal(error.param, 'max_tokens');
      assert.ok(error.requestID);
      return true;
    });
  }
  await assert.rejects(client.completions.create({ ...one, model: 'none' }), (error) => {
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.equal(error.code, 'model_not_found');
    return true;
  });
  const wrong = new OpenAI({ baseURL: TVQ_GUARDED_URL, apiKey: 'wrong', maxRetries: 0 });
  await assert.rejects(wrong.completions.create(one), OpenAI.AuthenticationError);
});

test('who calls too often is told, and comes through by the retries of the package', async () => {
  const one = { model: 'bytes', prompt: 'a', max_tokens: 1 };
  const guarded = new OpenAI({ baseURL: TVQ_GUARDED_URL, apiKey: TVQ_KEY, maxRetries: 0 });
  await assert.rejects(async () => {
    for (;;) await guarded.completions.create(one);
  }, OpenAI.RateLimitError);
  assert.equal((await guarded.completions.create(one, { maxRetries: 3 })).choices.length, 1);
});
