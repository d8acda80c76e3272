// Values that outlive a visit. A browser that forbids storage, or has no room, keeps them for the page's life.

class Kept {
  private readonly memory = new Map<string, string>();
  constructor(private readonly area: () => Storage) {}

  get(name: string): string | null {
    try {
      return this.memory.get(name) ?? this.area().getItem(`tvq.${name}`);
    } catch {
      return null;
    }
  }

  /** False where the value is kept for the page's life alone: a reload finds none then, and no older one. */
  set(name: string, value: string): boolean {
    this.memory.delete(name);
    try {
      this.area().removeItem(`tvq.${name}`);
      if (value !== '') this.area().setItem(`tvq.${name}`, value);
      return true;
    } catch {
      this.memory.set(name, value);
      return false;
    }
  }

  /** `otherwise` also where there is something of another kind: an older page's, or a person's. */
  getJson<T extends object | null>(name: string, otherwise: T): T {
    try {
      const value: unknown = JSON.parse(this.get(name) ?? '');
      const isOfItsKind =
        typeof value === 'object' && value !== null && Array.isArray(value) === Array.isArray(otherwise);
      return isOfItsKind ? (value as T) : otherwise;
    } catch {
      return otherwise;
    }
  }

  /** The entries of an object that are of this type; others are an older page's, or a person's. */
  getAll(name: string, type: 'string'): Record<string, string>;
  getAll(name: string, type: 'number'): Record<string, number>;
  getAll(name: string, type: string): Record<string, unknown> {
    const all = Object.entries(this.getJson<Record<string, unknown>>(name, {}));
    return Object.fromEntries(all.filter(([, value]) => typeof value === type));
  }

  setJson(name: string, value: unknown): boolean {
    return this.set(name, JSON.stringify(value));
  }
}

/** Until the tab is closed. */
export const visit = new Kept(() => sessionStorage);
/** Until the browser is told to forget. */
export const browser = new Kept(() => localStorage);
