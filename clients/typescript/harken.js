// Written by tools/clients.py: change the operations, then run it again.

const WRITES = new Set(["record", "remember", "forget", "memory_confirm", "memory_review", "rule_confirm", "rule_drop", "rate", "topic_rename", "tag", "conversation_title", "conversation_project", "experience_start", "experience_update", "experience_resolve", "experience_adopt", "value_clusters", "value_add", "index_code", "index_commits", "index_documents", "space_create", "grant", "revoke", "share", "unshare", "key_create", "key_revoke", "key_rotate", "principal_create"]);
// Each call makes a key anew, also one whose answer was lost.
const ONCE = new Set(["key_create", "key_rotate"]);
// Too often, the same is being answered, the store or the server is away: come back.
const AGAIN = new Set([409, 429, 502, 503, 504]);
const LEAST_WAIT = 200;
const MOST_WAIT = 30_000;

export class ApiError extends Error {
  constructor(status, type, detail) {
    super(`${detail} (${status})`);
    this.name = "ApiError";
    this.status = status;
    this.type = type;
    this.detail = detail;
  }
}

export class HarkenClient {
  constructor({ url, key, space, attempts = 5, timeout = 30_000, fetch = globalThis.fetch }) {
    if (!/^[\x20-\x7e]+$/.test(key?.trim() ?? "")) throw new Error("Without a key nobody is answered. It begins with hk_: harken key create");
    this.url = url.replace(/\/+$/, "");
    this.space = space;
    this.attempts = attempts;
    this.timeout = timeout;
    this.fetch = fetch;
    // Not a property that is printed with the client.
    Object.defineProperty(this, "key", { value: key, enumerable: false });
  }

  /** The same client, whose calls name a space. */
  inSpace(space) {
    const { url, key, attempts, timeout, fetch } = this;
    return new HarkenClient({ url, key, space, attempts, timeout, fetch });
  }

  /** The answer of a verb by its name. */
  async call(verb, given = {}) {
    const headers = { authorization: `Bearer ${this.key}`, "content-type": "application/json" };
    if (this.space !== undefined) headers["harken-space"] = utf8(this.space);
    // The same for every attempt: what was done by one whose answer was lost is not done again.
    if (WRITES.has(verb)) headers["idempotency-key"] = crypto.randomUUID();
    // A text that was cut inside an emoji ends with half of it, which no server takes.
    const body = JSON.stringify(given, (_name, value) => value?.toWellFormed?.() ?? value);
    const attempts = ONCE.has(verb) ? 1 : this.attempts;
    for (let attempt = 1; ; attempt++) {
      const wait = Math.min(MOST_WAIT, LEAST_WAIT * 2 ** (attempt - 1)) * (0.5 + Math.random() / 2);
      let response;
      try {
        const signal = AbortSignal.timeout(this.timeout);
        response = await this.fetch.call(globalThis, `${this.url}/v1/${verb}`, { method: "POST", headers, body, signal });
        if (response.ok) return await response.json();
      } catch (error) {
        // What answers with something else than JSON is no server of Harken, and is not asked again.
        if (error instanceof SyntaxError || attempt >= attempts) throw error;
        await pause(wait);
        continue;
      }
      if (!AGAIN.has(response.status) || attempt >= attempts) throw await refusal(response);
      const after = Number(response.headers.get("retry-after")) * 1000 || 0;
      // Later than it says, each by another moment: whoever was refused together would come back together.
      await pause(wait + Math.min(MOST_WAIT, after));
    }
  }

  /** The answers of a verb that lists, page by page. */
  async *pages(verb, given = {}) {
    for (let cursor; ; ) {
      const answer = await this.call(verb, cursor === undefined ? given : { ...given, cursor });
      yield answer;
      if (!answer.next_cursor) return;
      cursor = answer.next_cursor;
    }
  }

  search(given = {}) {
    return this.call("search", given);
  }
  show(given = {}) {
    return this.call("show", given);
  }
  record(given = {}) {
    return this.call("record", given);
  }
  conversations(given = {}) {
    return this.call("conversations", given);
  }
  read_conversation(given = {}) {
    return this.call("read_conversation", given);
  }
  days(given = {}) {
    return this.call("days", given);
  }
  context(given = {}) {
    return this.call("context", given);
  }
  fetch_conversation_details(given = {}) {
    return this.call("fetch_conversation_details", given);
  }
  status(given = {}) {
    return this.call("status", given);
  }
  stats(given = {}) {
    return this.call("stats", given);
  }
  failures(given = {}) {
    return this.call("failures", given);
  }
  assemble_context(given = {}) {
    return this.call("assemble_context", given);
  }
  premortem(given = {}) {
    return this.call("premortem", given);
  }
  recall(given = {}) {
    return this.call("recall", given);
  }
  remember(given = {}) {
    return this.call("remember", given);
  }
  memories(given = {}) {
    return this.call("memories", given);
  }
  forget(given = {}) {
    return this.call("forget", given);
  }
  memory_confirm(given = {}) {
    return this.call("memory_confirm", given);
  }
  memory_review(given = {}) {
    return this.call("memory_review", given);
  }
  memory_due(given = {}) {
    return this.call("memory_due", given);
  }
  rules(given = {}) {
    return this.call("rules", given);
  }
  rule_confirm(given = {}) {
    return this.call("rule_confirm", given);
  }
  rule_drop(given = {}) {
    return this.call("rule_drop", given);
  }
  rate(given = {}) {
    return this.call("rate", given);
  }
  recalls(given = {}) {
    return this.call("recalls", given);
  }
  topics(given = {}) {
    return this.call("topics", given);
  }
  topic_rename(given = {}) {
    return this.call("topic_rename", given);
  }
  digest(given = {}) {
    return this.call("digest", given);
  }
  tags(given = {}) {
    return this.call("tags", given);
  }
  tag(given = {}) {
    return this.call("tag", given);
  }
  conversation_title(given = {}) {
    return this.call("conversation_title", given);
  }
  conversation_project(given = {}) {
    return this.call("conversation_project", given);
  }
  experience_start(given = {}) {
    return this.call("experience_start", given);
  }
  experience_update(given = {}) {
    return this.call("experience_update", given);
  }
  experience_resolve(given = {}) {
    return this.call("experience_resolve", given);
  }
  experience_active(given = {}) {
    return this.call("experience_active", given);
  }
  experience_adopt(given = {}) {
    return this.call("experience_adopt", given);
  }
  experiences(given = {}) {
    return this.call("experiences", given);
  }
  value_clusters(given = {}) {
    return this.call("value_clusters", given);
  }
  value_members(given = {}) {
    return this.call("value_members", given);
  }
  value_add(given = {}) {
    return this.call("value_add", given);
  }
  values(given = {}) {
    return this.call("values", given);
  }
  index_code(given = {}) {
    return this.call("index_code", given);
  }
  index_commits(given = {}) {
    return this.call("index_commits", given);
  }
  index_documents(given = {}) {
    return this.call("index_documents", given);
  }
  indexed(given = {}) {
    return this.call("indexed", given);
  }
  spaces(given = {}) {
    return this.call("spaces", given);
  }
  space_create(given = {}) {
    return this.call("space_create", given);
  }
  grants(given = {}) {
    return this.call("grants", given);
  }
  grant(given = {}) {
    return this.call("grant", given);
  }
  revoke(given = {}) {
    return this.call("revoke", given);
  }
  share(given = {}) {
    return this.call("share", given);
  }
  unshare(given = {}) {
    return this.call("unshare", given);
  }
  whoami(given = {}) {
    return this.call("whoami", given);
  }
  keys(given = {}) {
    return this.call("keys", given);
  }
  key_create(given = {}) {
    return this.call("key_create", given);
  }
  key_revoke(given = {}) {
    return this.call("key_revoke", given);
  }
  key_rotate(given = {}) {
    return this.call("key_rotate", given);
  }
  principals(given = {}) {
    return this.call("principals", given);
  }
  principal_create(given = {}) {
    return this.call("principal_create", given);
  }
  audit(given = {}) {
    return this.call("audit", given);
  }
}

// A header of fetch holds bytes, each as one character.
function utf8(text) {
  return String.fromCharCode(...new TextEncoder().encode(text));
}

function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

async function refusal(response) {
  const found = await response.json().catch(() => null);
  if (typeof found?.detail === "string") return new ApiError(response.status, found.type, found.detail);
  // What stands between here and the server may answer in its own way.
  const told = response.statusText || response.status;
  return new ApiError(response.status, "about:blank", `${response.url} answers ${told}, not as Harken does.`);
}
