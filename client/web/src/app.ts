// What every page is given, and what a page is.

import type { Api, CallOptions } from './api/client.ts';
import { models as listModels } from './api/sessions.ts';
import type { Model } from './api/types.ts';

/** A server that takes longer does not answer. */
const PATIENCE_MS = 5000;

export class App {
  private known: Promise<Model[]> | null = null;
  /** Told of the models each time that the server has said which there are. */
  onModels: (models: Model[]) => void = () => undefined;
  constructor(readonly api: Api) {}

  /** The served models; asked once, again after an error or `forget`. Says at once when there is no answer. */
  models(options: CallOptions = {}): Promise<Model[]> {
    const once = { attempts: 1, signal: AbortSignal.timeout(PATIENCE_MS), ...options };
    this.known ??= this.ask(once);
    return this.known;
  }

  private async ask(options: CallOptions): Promise<Model[]> {
    try {
      const models = await listModels(this.api, options);
      this.onModels(models);
      return models;
    } catch (error) {
      this.known = null;
      throw error;
    }
  }

  forget(): void {
    this.known = null;
  }
}

export interface Page {
  title: string;
  node: HTMLElement;
  /** The page is shown, with what the address says after its name. */
  show(parameters: URLSearchParams): void;
  /** Another page is shown. What computes goes on. */
  hide?(): void;
}
