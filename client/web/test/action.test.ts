import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Action } from '../src/ui/action.ts';

/** As much of a button as an action uses. */
class FakeButton {
  textContent = '';
  readonly style = { minWidth: '' };
  readonly classList = { toggle: vi.fn() };
  onclick: (event: { detail: number }) => void = () => undefined;
  getBoundingClientRect = () => ({ width: 104.25 });
  setAttribute(): void {}
  append(text: string): void {
    this.textContent = text;
  }
  addEventListener(_: string, listener: (event: { detail: number }) => void): void {
    this.onclick = listener;
  }
}

const told: string[] = [];
let button: FakeButton;
let action: Action;

beforeEach(() => {
  vi.stubGlobal('document', { createElement: () => new FakeButton() });
  told.length = 0;
  action = new Action(
    'Write',
    () => {
      told.push('begin');
      action.run(true);
    },
    () => {
      told.push('stop');
      action.run(false);
    },
  );
  button = action.node as unknown as FakeButton;
});
afterEach(() => void vi.unstubAllGlobals());

it('begins, and then stops, at one place and as wide', () => {
  button.onclick({ detail: 1 });
  expect([button.textContent, button.style.minWidth]).toEqual(['Stop', '104.25px']);
  action.say('Continue'); // once it is over
  expect(button.textContent).toBe('Stop');
  button.onclick({ detail: 1 });
  expect([button.textContent, button.style.minWidth]).toEqual(['Continue', '']);
  expect(told).toEqual(['begin', 'stop']);
});

it('takes a double click for one, in either state; keys and programs have no count', () => {
  button.onclick({ detail: 1 });
  button.onclick({ detail: 2 });
  expect(told).toEqual(['begin']);
  button.onclick({ detail: 1 });
  button.onclick({ detail: 2 });
  expect(told).toEqual(['begin', 'stop']);
  button.onclick({ detail: 0 });
  button.onclick({ detail: 0 });
  expect(told).toEqual(['begin', 'stop', 'begin', 'stop']);
});
