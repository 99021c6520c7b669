// What things are called on the page.
import { visibleLine } from './dom.js';

const ACTIONS = {
  read: ['Read', 'Read once'],
  write: ['Write file', 'Write file once'],
  execute: ['Run command', 'Run command once'],
  delete: ['Delete', 'Delete once'],
  move: ['Move', 'Move once'],
  network: ['Use the network', 'Allow once'],
  interact: ['Send input', 'Send once'],
  mcp_tool: ['Use tool', 'Use tool once'],
  memory: ['Change memory', 'Allow once'],
  persistent_memory: ['Change lasting memory', 'Allow once'],
  internal: ['Change session state', 'Allow once'],
};

export function actionOf(approval) {
  const parts = approval.parts || [];
  if (parts.length > 1) {
    return { title: `${parts.length} actions`, allow: `Allow all ${parts.length} once` };
  }
  const [title, allow] = ACTIONS[approval.action] || ['Use tool', 'Allow once'];
  return { title: title === 'Use tool' ? `Use tool ${visibleLine(approval.tool)}` : title, allow };
}

const CANCELLED = {
  cancelled: 'the agent withdrew it',
  agent_gone: 'the agent stopped',
  restart: 'the service restarted',
  mode_changed: 'the mode of the session changed',
  plan_mode: 'the session is in plan mode now',
  autonomous_boundary: 'the session is autonomous now',
  autonomous_refused: 'the session is autonomous now',
  not_preapproved: 'the session is autonomous now',
  tainted: 'the session is tainted now',
  deny_path: 'its path is on the deny list now',
  git_metadata: 'it reaches git metadata',
  operand_changed: 'a file it names has changed',
  too_many_pending: 'too many requests were waiting',
};

const AFTER_ALLOW = {
  operand_changed: 'It was refused all the same: a file it names has changed.',
  checkpoint_failed: 'It was refused all the same: no checkpoint could be made.',
  checkpoint_running: 'It was refused all the same: the checkpoint was not finished in time.',
  ticket: 'The agent had stopped waiting: it counts when the agent asks again within 15 minutes.',
  expired: 'It came too late for the agent, which got a deny.',
};

function person(by) {
  if (!by) return '';
  if (typeof by === 'string') return visibleLine(by);
  return visibleLine(by.name || by.id || by.role || '');
}

// `decision` (may be null) is what the caller got; it says why a request was cancelled.
export function outcomeOf(approval, decision) {
  const who = person(approval.settled_by);
  const code = decision?.code || approval.code || '';
  const denied = decision?.decision === 'deny';
  const isGrant = approval.by === 'grant';
  const by = isGrant ? ' by an always-allow' : who && ` by ${who}`;
  switch (approval.state) {
    case 'allowed':
      return { text: `Allowed${by}`, note: (denied && AFTER_ALLOW[code]) || '', good: !denied };
    case 'allowed_always':
      return {
        text: `Allowed${by}, always for this exact target in its session`,
        note: (denied && AFTER_ALLOW[code]) || '',
        good: !denied,
      };
    case 'denied':
      return { text: `Denied${by}`, note: '', good: false };
    case 'expired':
      return { text: 'Denied: nobody answered', note: '', good: false };
    case 'cancelled':
      return { text: `Cancelled: ${CANCELLED[code] || 'no longer needed'}`, note: '', good: false };
    default:
      return { text: 'Gone: the service no longer knows this request', note: '', good: false };
  }
}

const VIAS = {
  web: 'the page',
  page: 'the page',
  api: 'the API',
  ide: 'an editor',
  cli: 'the command line',
};

export function viaOf(approval) {
  if (!approval.via) return '';
  return `via ${VIAS[approval.via] || visibleLine(approval.via)}`;
}

// What went wrong with a decision, in words, and what to do.
export function failureOf(error) {
  switch (error.status) {
    case undefined:
      return 'The service did not answer. Nothing is decided as far as this page knows; try again.';
    case 403:
      return `Refused: ${visibleLine(error.message)}`;
    case 422:
      return `Not possible: ${visibleLine(error.message)}`;
    case 429:
      return `Too many requests. Try again in ${error.retryAfterS || 1} s.`;
    case 503:
      return error.code === 'audit_unavailable'
        ? 'The audit log cannot be written, so nothing was decided: everything is being denied.'
        : `The service cannot do it now: ${visibleLine(error.message)}`;
    default:
      return `Not decided (${error.status}): ${visibleLine(error.message)}`;
  }
}
