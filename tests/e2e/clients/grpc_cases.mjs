// What @grpc/grpc-js sees of a server. test_grpc_js.py says where to go and where the packages are.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { after, test } from 'node:test';
import { promisify } from 'node:util';

const { TVQ_ADDRESS, TVQ_PROTO, TVQ_NODE_PACKAGES } = process.env;
const load = createRequire(`${TVQ_NODE_PACKAGES}/`);
const grpc = load('@grpc/grpc-js');
const definition = load('@grpc/proto-loader').loadSync(
  ['tvq/v1/generation.proto', 'tvq/v1/model.proto', 'tvq/v1/session.proto'],
  { includeDirs: [TVQ_PROTO], keepCase: true, longs: Number, enums: String, defaults: true },
);
const { GenerationService, ModelService, SessionService } = grpc.loadPackageDefinition(definition).tvq.v1;

const credentials = grpc.credentials.createInsecure();
const generation = new GenerationService(TVQ_ADDRESS, credentials);
const models = new ModelService(TVQ_ADDRESS, credentials);
const sessions = new SessionService(TVQ_ADDRESS, credentials);
after(() => [generation, models, sessions].forEach((client) => client.close()));

const unary = (client, method, request) => promisify(client[method].bind(client))(request);
const greedy = { temperature: 0, ignore_eos: true };
const endless = { model: 'bytes', text: 'Once', sampling: { max_tokens: 100_000_000, ignore_eos: true } };

/** The ids that a Generate call makes, and its last message. */
async function generate(request) {
  const ids = [];
  let last;
  for await (const message of generation.Generate(request)) {
    for (const delta of message.deltas) ids.push(...delta.token_ids);
    last = message;
  }
  return { ids, last };
}

async function idle() {
  while ((await unary(models, 'GetServerInfo', {})).requests_running > 0) {
    await new Promise((done) => setTimeout(done, 10));
  }
}

test('generate streams', async () => {
  const { ids, last } = await generate({ model: 'bytes', text: 'Once', sampling: { ...greedy, max_tokens: 12 } });
  assert.equal(ids.length, 12);
  assert.deepEqual([last.usage.prompt_tokens, last.usage.completion_tokens], [4, 12]);
});

test('a session goes on', async () => {
  const { session } = await unary(sessions, 'CreateSession', { model: 'bytes' });
  const call = { session_id: session.id };
  const first = await generate({ text: 'Once', session: call, sampling: { ...greedy, max_tokens: 6 } });
  const second = await generate({ session: call, sampling: { ...greedy, max_tokens: 6 } });
  assert.equal(second.last.session.position, 16);
  const whole = await generate({ model: 'bytes', text: 'Once', sampling: { ...greedy, max_tokens: 12 } });
  assert.deepEqual([...first.ids, ...second.ids], whole.ids);
  await unary(sessions, 'DeleteSession', { session: call });
});

test('cancelling frees the server', { timeout: 60_000 }, async () => {
  const call = generation.Generate(endless);
  const code = await new Promise((resolve) => {
    call.once('data', () => call.cancel());
    call.on('error', (error) => resolve(error.code));
  });
  assert.equal(code, grpc.status.CANCELLED);
  await idle();
});

test('a deadline ends a call', { timeout: 60_000 }, async () => {
  const call = generation.Generate(endless, { deadline: Date.now() + 200 });
  await assert.rejects(
    async () => {
      for await (const message of call) assert.ok(message);
    },
    { code: grpc.status.DEADLINE_EXCEEDED },
  );
  await idle();
});

test('errors have their codes', async () => {
  await assert.rejects(generate({ model: 'none', text: 'Once' }), { code: grpc.status.NOT_FOUND });
  await assert.rejects(generate({ model: 'bytes', text: 'Once', sampling: { max_tokens: -1 } }), (error) => {
    assert.equal(error.code, grpc.status.INVALID_ARGUMENT);
    assert.match(error.details, /max_tokens/);
    return true;
  });
});
