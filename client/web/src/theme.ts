// Dark or light: what the system says, until the person says otherwise.

import { el } from './dom.ts';
import { browser } from './ui/store.ts';

const CHOICES = ['auto', 'light', 'dark'] as const;
type Theme = (typeof CHOICES)[number];

function chosen(): Theme {
  const kept = browser.get('theme');
  return CHOICES.find((choice) => choice === kept) ?? 'auto';
}

export function applyTheme(theme: Theme = chosen()): void {
  if (theme === 'auto') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = theme;
}

export function themeSwitch(): HTMLElement {
  const radios = CHOICES.map((choice) => {
    const input = el('input', {
      type: 'radio',
      name: 'theme',
      value: choice,
      checked: choice === chosen(),
      onchange: () => {
        browser.set('theme', choice === 'auto' ? '' : choice);
        applyTheme(choice);
      },
    });
    return el('label', {}, input, el('span', {}, choice));
  });
  return el('fieldset', { class: 'switch' }, el('legend', {}, 'Theme'), ...radios);
}
