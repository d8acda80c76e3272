// A browser's storage, for tests.

export interface Memory extends Pick<Storage, 'getItem' | 'setItem' | 'removeItem'> {
  /** Characters that all values may have. */
  room: number;
}

export function memory(): Memory {
  const held = new Map<string, string>();
  const storage: Memory = {
    room: Infinity,
    getItem: (name) => held.get(name) ?? null,
    removeItem: (name) => void held.delete(name),
    setItem: (name, value) => {
      const others = [...held].filter(([key]) => key !== name).reduce((sum, [, { length }]) => sum + length, 0);
      if (others + value.length > storage.room) throw new DOMException('no room', 'QuotaExceededError');
      held.set(name, value);
    },
  };
  return storage;
}
