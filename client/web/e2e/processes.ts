// The real server and the real gateway, with small models, on free ports.

import { spawn, type ChildProcess } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '../../..');
const BIN = process.env['TVQ_BIN_DIR'] ?? join(ROOT, 'build/release/bin');
const GOLDEN = join(ROOT, 'tests/golden');
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

  stop(): Promise<void> {
    return new Promise((done) => {
      if (this.child.exitCode !== null || this.child.signalCode !== null) return done();
      const late = setTimeout(() => this.child.kill('SIGKILL'), 5000);
      this.child.once('exit', () => {
        clearTimeout(late);
        done();
      });
      this.child.kill('SIGTERM');
    });
  }
}

/** Characters of the couplet model of the tests: some Chinese ones, some letters, signs, the end of a line. */
export const CHARACTERS = [
  ...'风弦未拨心先乱夜幕已沉梦更闲花粘于春袖口莺声溅落柳枝头晋世文章昌二陆魏家词赋重三曹一句相思吟岁月千杯美酒醉情山水云天日明长江',
  ...'，。abcdefghijklmnopqrstuvwxyz',
];

/** A model that reads characters: the byte model's weights, whose ids mean something else here. */
function characterModel(folder: string): string {
  const model = join(folder, 'couplets');
  cpSync(join(GOLDEN, 'bytes_untied'), model, { recursive: true });
  const config = JSON.parse(readFileSync(join(model, 'config.json'), 'utf8')) as Record<string, unknown>;
  writeFileSync(join(model, 'characters.txt'), [...new Set(CHARACTERS), '\\n'].join('\n') + '\n');
  writeFileSync(
    join(model, 'config.json'),
    JSON.stringify({ ...config, tokenizer: { type: 'characters', file: 'characters.txt' } }),
  );
  return model;
}

export class Service {
  private constructor(
    private readonly folder: string,
    private readonly server: Running,
    private readonly gateway: Running,
  ) {}

  get url(): string {
    return `http://${this.gateway.address}`;
  }

  static async start(keys: string | null = null): Promise<Service> {
    const folder = mkdtempSync(join(tmpdir(), 'tvq-web-'));
    const flags = ['--port', '0', '--session-dir', join(folder, 'sessions')];
    const models = {
      novels: join(ROOT, 'models/zoo/novels'),
      couplets: characterModel(folder),
      digits: join(GOLDEN, 'pixels_abs'),
    };
    for (const [name, path] of Object.entries(models)) flags.push('--model', `${name}=${path}`);
    if (keys !== null) {
      writeFileSync(join(folder, 'keys'), keys);
      flags.push('--api-key-file', join(folder, 'keys'));
    }
    const server = await Running.start('tvq-server', flags);
    const gateway = await Running.start('tvq-gateway', ['--port', '0', '--server', server.address]);
    return new Service(folder, server, gateway);
  }

  async stop(): Promise<void> {
    await this.gateway.stop();
    await this.server.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
