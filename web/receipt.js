// What a card becomes when it is settled: who, how, when.
import { button, el, visible, visibleLine } from './dom.js';
import { actionOf, outcomeOf, viaOf } from './words.js';
import { clock } from './time.js';

export function receiptView(approval, decision, number, onDismiss) {
  const { text, note, good } = outcomeOf(approval, decision);
  const { title } = actionOf(approval);
  const when = approval.settled_at && clock(approval.settled_at);
  const shown = visibleLine(approval.display?.text);
  return el(
    'div',
    { class: 'receipt' },
    el(
      'p',
      { class: good ? 'outcome good' : 'outcome' },
      el('strong', {}, good ? '\u2713 ' : '\u2715 ', text),
      ' ',
      [viaOf(approval), when].filter(Boolean).join(', ')
    ),
    el(
      'p',
      { class: 'meta' },
      `${title} \u00b7 `,
      el(
        'code',
        { dir: 'ltr', translate: 'no' },
        shown.slice(0, 200),
        shown.length > 200 && '\u2026'
      )
    ),
    note && el('p', { class: 'note' }, note),
    approval.feedback && el('p', { class: 'reply' }, 'Reply: ', visible(approval.feedback)),
    button('Dismiss', { class: 'plain', 'aria-label': `Dismiss, request ${number}` }, onDismiss)
  );
}
