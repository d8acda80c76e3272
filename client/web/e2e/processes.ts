// The real server and the real gateway, with the models that are shipped and one in colours, on free ports.

import { spawn, type ChildProcess } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '../../..');
const BIN = process.env['TVQ_BIN_DIR'] ?? join(ROOT, 'build/release/bin');
const PATIENCE_MS = 90_000;

class Running {
  stderr = '';
  private constructor(
    readonly address: string,
    private readonly child: ChildProcess,
  ) {}

  static start(program: string, flags: string[], environment: Record<string, string> = {}): Promise<Running> {
    const child = spawn(join(BIN, program), flags, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...environment },
    });
    let out = '';
    let err = '';
    return new Promise((found, failed) => {
      const give = (why: string): void => failed(new Error(`${program} ${why}: ${err.slice(-2000)}`));
      const timer = setTimeout(() => give('does not listen'), PATIENCE_MS);
      child.on('error', (error) => give(String(error)));
      child.on('exit', (code) => give(`ended with code ${code}`));
      child.stderr!.on('data', (data: Buffer) => (err += data));
      child.stdout!.on('data', (data: Buffer) => {
        out += data;
        const at = /listening on (?:https?:\/\/)?(\S+)\s/.exec(out);
        if (!at) return;
        clearTimeout(timer);
        child.removeAllListeners('exit');
        child.once('exit', (code, signal) => {
          if (code !== 0) console.error(`${program} ended with ${signal ?? code}: ${err.slice(-2000)}`);
        });
        found(new Running(at[1]!, child));
      });
    });
  }

  /** Ends it as a crash does. */
  kill(): Promise<void> {
    this.child.removeAllListeners('exit');
    return new Promise((done) => {
      this.child.once('exit', () => done());
      this.child.kill('SIGKILL');
    });
  }

  /** `now`: it is told twice, so that it does not wait for what runs, and must end by itself. */
  stop(now = false): Promise<void> {
    return new Promise((done, failed) => {
      if (this.child.exitCode !== null || this.child.signalCode !== null) return done();
      const late = setTimeout(() => this.child.kill('SIGKILL'), now ? PATIENCE_MS : 5000);
      this.child.once('exit', (_, signal) => {
        clearTimeout(late);
        if (now && signal === 'SIGKILL') failed(new Error('it did not end when it was told to'));
        else done();
      });
      this.child.kill('SIGTERM');
      if (now) setTimeout(() => this.child.kill('SIGTERM'), 500);
    });
  }
}

export const PRINT = { width: 10, height: 8, channels: 3 };

/** One in colours, and without a token to begin from: the byte model's weights, whose ids mean levels. */
function colourModel(folder: string): string {
  const model = join(folder, 'prints');
  cpSync(join(ROOT, 'tests/golden/bytes_untied'), model, { recursive: true });
  const config = JSON.parse(readFileSync(join(model, 'config.json'), 'utf8')) as Record<string, unknown>;
  const tokenizer = { type: 'pixels', ...PRINT, levels: 256 };
  const changed = { ...config, pad_token_id: null, eos_token_id: null, unk_token_id: null, tokenizer };
  writeFileSync(join(model, 'config.json'), JSON.stringify(changed));
  return model;
}

/** One of Hugging Face's with random weights, whose own files have a template for conversations. */
function talkingModel(folder: string): string {
  const model = join(folder, 'talker');
  cpSync(join(ROOT, 'tests/golden/hugging_face/qwen3_tied'), model, { recursive: true });
  return model;
}

/** The byte model, with a template in generation_config.json. */
function tutoringModel(folder: string): string {
  const model = join(folder, 'tutor');
  cpSync(join(ROOT, 'tests/golden/bytes_untied'), model, { recursive: true });
  const chat_template = {
    system: { suffix: '\n' },
    user: { prefix: 'User: ', suffix: '\n' },
    assistant: { prefix: 'Tutor:', suffix: '\n' },
    stop: ['\nUser:'],
  };
  writeFileSync(join(model, 'generation_config.json'), JSON.stringify({ chat_template }));
  return model;
}

const shipped = (name: string) => (): string => join(ROOT, 'models/zoo', name);

/** The usual ones in the order in which a server lists them. */
const MODELS: Record<string, (folder: string) => string> = {
  couplets: shipped('couplets'),
  digits: shipped('digits'),
  novels: shipped('novels'),
  prints: colourModel,
  smollm2: () => join(ROOT, 'models/local/smollm2'), // by scripts/get-model
  talker: talkingModel,
  tutor: tutoringModel,
};

/** What is served unless a test says otherwise: none of them was made for conversations. */
const USUAL = ['couplets', 'digits', 'novels', 'prints'];

export interface Setup {
  /** The lines of a file of keys. */
  keys?: string;
  /** Names of MODELS; by default the usual ones. */
  models?: string[];
}

export class Service {
  private constructor(
    private readonly folder: string,
    private server: Running,
    private readonly gateway: Running,
  ) {}

  get url(): string {
    return `http://${this.gateway.address}`;
  }

  static async start({ keys, models = USUAL }: Setup = {}): Promise<Service> {
    const folder = mkdtempSync(join(tmpdir(), 'tvq-web-'));
    const more: string[] = [];
    if (keys !== undefined) {
      writeFileSync(join(folder, 'keys'), keys);
      more.push('--api-key-file', join(folder, 'keys'));
    }
    const server = await serve(folder, '0', models, more);
    const gateway = await Running.start('tvq-gateway', ['--port', '0', '--server', server.address]);
    return new Service(folder, server, gateway);
  }

  /** Starts the server anew, at the same place, with other models. */
  async serveInstead(models: string[]): Promise<void> {
    await this.server.stop();
    this.server = await serve(this.folder, this.server.address.replace(/.*:/, ''), models);
  }

  /** The server ends as by a crash; the gateway stays. */
  serverDies(): Promise<void> {
    return this.server.kill();
  }

  /** The server ends as one that is told to, with what it runs; the gateway stays. */
  serverEnds(): Promise<void> {
    return this.server.stop(true);
  }

  async stop(): Promise<void> {
    await this.gateway.stop();
    await this.server.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function serve(folder: string, port: string, models: string[], more: string[] = []): Promise<Running> {
  const named = models.flatMap((name) => ['--model', `${name}=${MODELS[name]!(folder)}`]);
  return Running.start('tvq-server', ['--port', port, '--session-dir', join(folder, 'sessions'), ...named, ...more]);
}
