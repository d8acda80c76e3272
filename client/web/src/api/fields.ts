// The fields of sampling that the page has controls for: index.html has them, from the gateway.

/** A field, as JSON Schema has it. */
export interface Field {
  /** Left out by texts. */
  type?: ['number' | 'integer' | 'boolean', 'null'];
  description: string;
  /** What holds if neither request nor model says anything. */
  default?: number;
  minimum?: number;
  exclusiveMinimum?: number;
  maximum?: number;
}

/** By name, in the order of the page. */
export interface Fields {
  /** Shown from the start. */
  first: Record<string, Field>;
  /** Shown on demand. */
  more: Record<string, Field>;
}

export const fields = (): Fields => JSON.parse(document.getElementById('sampling')!.textContent!) as Fields;
