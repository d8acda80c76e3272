import { webcrypto } from 'node:crypto';

// What browsers, and Node from 19 on, have as a global.
globalThis.crypto ??= webcrypto as Crypto;
