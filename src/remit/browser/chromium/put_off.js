// Runs in the page's own world, before any script of it. It records whether the page has deferred work because of an
// action of the agent, such as a timer of a debounced form, or a request whose answer causes the next one.
//
// This is a hint, so that an action waits for its consequences. If a page falsifies it, the action only waits longer, up
// to the limit, or does not wait. No request is allowed or sent because of it. It follows timers, animation frames,
// fetch, XMLHttpRequest and workers, and nothing else.
(name, mostMilliseconds) => {
  const world = globalThis;
  if (typeof world.setTimeout !== "function" || typeof world.document !== "object") return;
  const { setTimeout, Proxy, Set, Map, Reflect, Object, MessageChannel, Promise, Array, Math, Symbol } = world;
  const listen = world.addEventListener.bind(world);
  const apply = Reflect.apply, then = Promise.prototype.then, addListener = EventTarget.prototype.addEventListener;
  const MOST_LINKS = 50, MOST_FRAMES = 3, WORKER_MILLISECONDS = 500, INPUTS = ["pointerdown", "mousedown", "pointerup",
    "mouseup", "click", "auxclick", "dblclick", "keydown", "keyup", "beforeinput", "input", "change", "submit"];

  // The number of steps from an action to the running code: 0 if no action caused it.
  let link = 0, hops = 0;
  const waiting = new Set(), timers = new Map(), frames = new Map();

  // A script may call another document of the same site, which has timers of its own. So the documents ask each other.
  // A document of another site throws.
  const KEY = Symbol.for(name), near = () => {
    const inner = Array.from({ length: Math.min(world.length, 20) }, (_, number) => world[number]);
    for (const other of [world.parent, world.top, ...inner]) {
      try {
        const number = other !== world && other[KEY] ? other[KEY]() : 0;
        if (number) return number;
      } catch { /* of another site */ }
    }
    return 0;
  };
  Object.defineProperty(world, KEY, { value: () => link });
  const here = () => link || near();

  // The work of a step ends with its task and the promises of that. There is no event for this end, so two messages are
  // sent after it.
  const channel = new MessageChannel();
  const post = channel.port2.postMessage.bind(channel.port2);
  channel.port1.onmessage = () => { if (--hops > 0) post(0); else link = 0; };
  const enter = (number) => {
    link = number > MOST_LINKS ? 0 : number;
    if (hops <= 0) post(0);
    hops = 2;
  };

  for (const type of INPUTS) listen(type, (event) => { if (event.isTrusted) enter(1); }, { capture: true, passive: true });
  listen(`${name}-begin`, () => enter(1), true);
  listen(name, (event) => {
    event.stopImmediatePropagation();
    if (waiting.size > 0) event.preventDefault();
  }, true);

  const replace = (holder, key, handler) => {
    const found = Object.getOwnPropertyDescriptor(holder, key);
    if (!found || typeof found.value !== "function" || !found.configurable) return;
    Object.defineProperty(holder, key, { ...found, value: new Proxy(found.value, handler) });
  };
  const following = (kept, most, delayOf) => ({
    apply: (run, self, words) => {
      const [work, ...rest] = words, from = here();
      if (!from || from > most || typeof work !== "function" || delayOf(rest) > mostMilliseconds) {
        return apply(run, self, words);
      }
      const token = {};
      waiting.add(token);
      const done = function (...given) {
        waiting.delete(token);
        kept.delete(number);
        enter(from + 1);
        return apply(work, this, given);
      };
      const number = apply(run, self, [done, ...rest]);
      kept.set(number, token);
      return number;
    },
  });
  const forgetting = (kept) => ({
    apply: (run, self, words) => {
      waiting.delete(kept.get(words[0]));
      kept.delete(words[0]);
      return apply(run, self, words);
    },
  });
  const settling = {
    apply: (run, self, words) => {
      const from = here(), answer = apply(run, self, words);
      if (!from || !(answer instanceof Promise)) return answer;
      const token = {};
      waiting.add(token);
      const over = () => { waiting.delete(token); enter(from + 1); };
      apply(then, answer, [over, over]);
      return answer;
    },
  };
  const briefly = (from) => {
    const token = {};
    if (!from) return;
    waiting.add(token);
    apply(setTimeout, world, [() => waiting.delete(token), WORKER_MILLISECONDS]);
  };

  replace(world, "setTimeout", following(timers, MOST_LINKS, (rest) => Number(rest[0]) || 0));
  replace(world, "clearTimeout", forgetting(timers));
  replace(world, "requestAnimationFrame", following(frames, MOST_FRAMES, () => 0));
  replace(world, "cancelAnimationFrame", forgetting(frames));
  replace(world, "fetch", settling);
  for (const read of ["json", "text", "blob", "arrayBuffer", "formData"]) replace(Response.prototype, read, settling);
  replace(XMLHttpRequest.prototype, "send", {
    apply: (run, self, words) => {
      const from = here(), token = {};
      if (from) {
        const on = (type, work) => apply(addListener, self, [type, work]);
        waiting.add(token);
        on("readystatechange", () => enter(from + 1));
        on("loadend", () => { waiting.delete(token); enter(from + 1); });
      }
      try {
        return apply(run, self, words);
      } catch (problem) {
        waiting.delete(token);
        throw problem;
      }
    },
  });
  for (const kind of ["Worker", "SharedWorker"]) {
    replace(world, kind, { construct: (make, words, target) => {
      briefly(here());
      return Reflect.construct(make, words, target);
    } });
  }
  if (world.Worker) {
    replace(Worker.prototype, "postMessage", { apply: (run, self, words) => {
      briefly(here());
      return apply(run, self, words);
    } });
  }
}
