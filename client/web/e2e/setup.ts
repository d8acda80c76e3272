import type { TestProject } from 'vitest/node';
import { Service } from './processes.ts';

declare module 'vitest' {
  interface ProvidedContext {
    url: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const service = await Service.start();
  project.provide('url', service.url);
  return () => service.stop();
}
