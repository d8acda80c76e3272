import { beforeEach, describe, expect, it } from 'vitest';
import { Api } from '../src/api/client.ts';
import type { Model } from '../src/api/types.ts';
import { newChat, pathTo, say, type Chat, type Said } from '../src/pages/chat/talk.ts';
import { Turn } from '../src/pages/chat/turn.ts';
import { FakeGateway, failure } from './fake_gateway.ts';

/** Its own files have a template, and its state grows and can be cut anywhere. */
const OWN = { id: 'm', state_grows: true, conversation_templates: ['default'], has_chat_template: false } as Model;
/** generation_config.json has a template, and the state has one size. */
const FIXED = { id: 'm', state_grows: false, conversation_templates: [], has_chat_template: true } as unknown as Model;

let gateway: FakeGateway;
let chat: Chat;

beforeEach(() => {
  gateway = new FakeGateway();
  chat = newChat('');
});

interface Asked {
  messages: { role: string; content: string }[];
  session_id?: string;
  expected_version?: number;
  [field: string]: unknown;
}
const asked = (): Asked[] =>
  gateway.calls.filter(({ path }) => path === '/v1/chat/completions').map(({ body }) => body as Asked);
/** What the last request said, a message a line. */
const told = (): string[] =>
  asked()
    .at(-1)!
    .messages.map(({ role, content }) => `${role}: ${content}`);
const paths = (): string[] => gateway.calls.map(({ method, path }) => `${method} ${path.replace('/v1/', '')}`);

interface Options {
  signal?: AbortSignal;
  onPiece?: () => void;
  goesOn?: boolean;
}

async function answer(model: Model, last: Said, options: Options = {}): Promise<Said> {
  gateway.writesOwn = model === OWN;
  const api = new Api({ fetch: gateway.fetch, sleep: () => Promise.resolve() });
  const said = options.goesOn ? last : say(chat, { parent: last.id, role: 'assistant', text: '', end: 'writing' });
  const watch = {
    onSend: () => undefined,
    onWait: () => undefined,
    onPiece: ({ text }: { text: string }) => {
      said.text += text;
      options.onPiece?.();
    },
  };
  const turn = new Turn(api, chat, model, { max_tokens: 4 });
  const path = pathTo(chat, last.id);
  await turn.answer(path, options.goesOn ?? false, said, watch, options.signal ?? new AbortController().signal);
  return said;
}
const ask = (model: Model, text: string, parent = chat.leaf, options: Options = {}): Promise<Said> =>
  answer(model, say(chat, { parent, role: 'user', text }), options);

/** Stops after so many pieces. */
async function stopped(model: Model, text: string, pieces: number): Promise<Said> {
  const control = new AbortController();
  let left = pieces;
  const onPiece = (): void => {
    left -= 1;
    if (left === 0) control.abort();
  };
  await expect(ask(model, text, chat.leaf, { signal: control.signal, onPiece })).rejects.toMatchObject({
    name: 'AbortError',
  });
  return chat.said.at(-1)!;
}

describe('a session', () => {
  it('is sent all messages where the model’s own files have the template', async () => {
    chat.system = 'Be kind.';
    const first = await ask(OWN, 'One');
    expect(told()).toEqual(['system: Be kind.', 'user: One']);
    const second = await ask(OWN, 'Two');
    expect(told()).toEqual(['system: Be kind.', 'user: One', `assistant: ${first.text}`, 'user: Two']);
    expect(asked()[1]).toMatchObject({ session_id: 's1', limit_to_context: true, max_tokens: 4, model: 'm' });
    expect(chat.sessions).toMatchObject([{ id: 's1', head: second.id, version: gateway.sessions.get('s1')!.version }]);
    expect(paths().filter((path) => path === 'POST sessions')).toHaveLength(1);
    expect(paths().some((path) => path.includes('marks'))).toBe(false);
  });

  it('is sent what is new where generation_config.json has the template, and marked before', async () => {
    chat.system = 'Be kind.';
    const first = await ask(FIXED, 'One');
    expect(told()).toEqual(['system: Be kind.', 'user: One']);
    const second = await ask(FIXED, 'Two');
    expect(told()).toEqual(['user: Two']);
    expect(gateway.text('s1')).toBe(`s:Be kind.|u:One|${first.text}u:Two|${second.text}`);
    expect(chat.sessions).toMatchObject([{ id: 's1', head: second.id, marked: first.id }]);
  });

  it('is named by the chat, and goes after a month without use', async () => {
    await ask(OWN, 'What is it?');
    expect(gateway.calls[0]).toMatchObject({ path: '/v1/sessions', body: { label: 'What is it?', ttl: 2_592_000 } });
  });

  it('is copied for a second answer, from before the first, which stays', async () => {
    for (const model of [OWN, FIXED]) {
      chat = newChat('');
      gateway = new FakeGateway();
      const first = await ask(model, 'One');
      const second = await ask(model, 'Two');
      const before = gateway.text('s1');
      const question = chat.said.find(({ id }) => id === second.parent)!;
      const other = await answer(model, question);
      expect(chat.sessions.map(({ id, head }) => [id, head])).toEqual([
        ['s1', second.id],
        ['s2', other.id],
      ]);
      expect(gateway.text('s1')).toBe(before);
      if (model === FIXED) expect(gateway.text('s2')).toBe(`u:One|${first.text}u:Two|${other.text}`);
      // Each branch goes on in its own.
      await ask(model, 'Three', second.id);
      await ask(model, 'Three', other.id);
      expect(
        asked()
          .slice(-2)
          .map(({ session_id }) => session_id),
      ).toEqual(['s1', 's2']);
    }
  });

  it('is replaced by a new one where the server has it no more, or it went on elsewhere', async () => {
    for (const model of [OWN, FIXED])
      for (const lost of [() => gateway.sessions.delete('s1'), () => gateway.write('s1', 'x')]) {
        chat = newChat('');
        gateway = new FakeGateway();
        const first = await ask(model, 'One');
        lost();
        const second = await ask(model, 'Two');
        expect(told()).toEqual(['user: One', `assistant: ${first.text}`, 'user: Two']);
        expect(chat.sessions).toMatchObject([{ id: 's2', head: second.id }]);
        expect(paths().some((path) => path.startsWith('DELETE'))).toBe(false);
      }
  });

  it('is waited for while it is in use, as by an answer that was stopped', async () => {
    await ask(OWN, 'One');
    gateway.queue.push(failure(409, 'the session is in use'));
    await ask(OWN, 'Two');
    expect(asked().map(({ session_id }) => session_id)).toEqual(['s1', 's1', 's1']);
  });

  it('is done without where the server makes none', async () => {
    gateway.queue.push(failure(429, 'no room for a session'));
    await ask(OWN, 'One');
    expect(asked()[0]).not.toHaveProperty('session_id');
    expect(asked()[0]).not.toHaveProperty('expected_version');
    expect(chat.sessions).toEqual([]);
  });

  it('holds nothing of an answer that was stopped, which is told again', async () => {
    for (const model of [OWN, FIXED]) {
      chat = newChat('');
      gateway = new FakeGateway();
      const first = await ask(model, 'One');
      const broken = await stopped(model, 'Two', 2);
      expect(broken.text).toHaveLength(2);
      expect(chat.sessions[0]!.head).toBe(first.id);
      await ask(model, 'Three');
      expect(told().slice(-3)).toEqual(['user: Two', `assistant: ${broken.text}`, 'user: Three']);
      expect(told()).toHaveLength(model === OWN ? 5 : 3);
      expect(asked().at(-1)!.session_id).toBe('s1');
    }
  });

  it('is one of six; those that were used longest ago are deleted', async () => {
    for (let i = 0; i < 8; i += 1) await ask(OWN, `Version ${i}`, null);
    expect(chat.sessions.map(({ id }) => id)).toEqual(['s3', 's4', 's5', 's6', 's7', 's8']);
    expect([...gateway.sessions.keys()]).toEqual(['s3', 's4', 's5', 's6', 's7', 's8']);
  });
});

it('goes on with an answer that was stopped', async () => {
  const broken = await stopped(OWN, 'One', 2);
  await answer(OWN, broken, { goesOn: true });
  expect(asked()[1]).toMatchObject({ continue_final_message: true, add_generation_prompt: false });
  expect(told()).toEqual(['user: One', `assistant: ${broken.text.slice(0, 2)}`]);
  expect(broken.text).toHaveLength(6);
  expect(chat.sessions[0]!.head).toBe(broken.id);
});

it('throws what went wrong, and keeps what came', async () => {
  gateway.breakAfter = 2;
  await expect(ask(OWN, 'One')).rejects.toMatchObject({ status: 500 });
  expect(chat.said.at(-1)!.text).toHaveLength(2);
  gateway.away = true;
  await expect(ask(OWN, 'Two')).rejects.toMatchObject({ status: 0 });
  gateway.away = false;
  gateway.breakAfter = Infinity;
  gateway.queue.push(failure(400, 'temperature: must be at least 0', 'temperature'));
  await expect(ask(OWN, 'Three')).rejects.toMatchObject({ status: 400, param: 'temperature' });
  await ask(OWN, 'Four');
  expect(asked().at(-1)!.session_id).toBe('s1');
});
