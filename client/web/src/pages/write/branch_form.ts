// Asks for the name of a branch.

import { el, fill, newId } from '../../dom.ts';

export class BranchForm {
  readonly node = el('form', { class: 'inline-form' });

  /** `save` is given the name; `left` is called when the person is done with it. */
  constructor(
    private readonly save: (name: string) => void,
    private readonly left: () => void,
  ) {
    this.node.hidden = true;
  }

  ask(proposal: string): void {
    const id = newId('branch');
    const name = el('input', { id, value: proposal, maxlength: 120 });
    fill(
      this.node,
      el('label', { for: id }, 'Name of the branch'),
      name,
      el('button', { class: 'primary' }, 'Save'),
      el('button', { type: 'button', onclick: () => this.end() }, 'Cancel'),
    );
    this.node.onsubmit = (event) => {
      event.preventDefault();
      this.save(name.value);
    };
    this.node.hidden = false;
    name.focus();
    name.select();
  }

  end(): void {
    this.close();
    this.left();
  }

  /** There is nothing to save now. */
  close(): void {
    this.node.hidden = true;
  }
}
