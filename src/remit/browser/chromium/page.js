// Reads a page from an isolated world: the page's scripts cannot reach this code or change the functions that it calls.
// The document still can. An <input name="action"> hides form.action, and an <img name="body"> hides document.body, in
// every world. So no property of a node is read by its name; all reads go through the prototypes.
function (method, argument) {
  const reader = (prototype, name) => {
    const get = Object.getOwnPropertyDescriptor(prototype, name).get;
    return (node) => Reflect.apply(get, node, []);
  };
  const caller = (prototype, name) => {
    const run = prototype[name];
    return (node, ...words) => Reflect.apply(run, node, words);
  };

  const all = caller(Document.prototype, "querySelectorAll");
  const rootElement = reader(Document.prototype, "documentElement");
  const rootOf = caller(Node.prototype, "getRootNode");
  const parentOf = reader(Node.prototype, "parentNode");
  const isConnected = reader(Node.prototype, "isConnected");
  const typeOf = reader(Node.prototype, "nodeType");
  const tagOf = (node) => reader(Element.prototype, "localName")(node);
  const attribute = caller(Element.prototype, "getAttribute");
  const has = caller(Element.prototype, "hasAttribute");
  const matches = caller(Element.prototype, "matches");
  const boxOf = caller(Element.prototype, "getBoundingClientRect");
  const boxesOf = caller(Element.prototype, "getClientRects");
  const isVisible = caller(Element.prototype, "checkVisibility");
  const shadowOf = reader(Element.prototype, "shadowRoot");
  const slotOf = reader(Element.prototype, "assignedSlot");
  const serialised = reader(Element.prototype, "outerHTML");
  const isHtml = (node) => node instanceof HTMLElement;
  const is = (node, ...tags) => isHtml(node) && tags.includes(tagOf(node));

  const FORM_OF = { button: HTMLButtonElement, input: HTMLInputElement, select: HTMLSelectElement,
    textarea: HTMLTextAreaElement, fieldset: HTMLFieldSetElement, output: HTMLOutputElement,
    object: HTMLObjectElement };
  const formOf = (node) => {
    if (is(node, "form")) return node;
    const kind = isHtml(node) ? FORM_OF[tagOf(node)] : undefined;
    if (kind) return reader(kind.prototype, "form")(node);
    for (let near = node; near; near = above(near)) if (is(near, "form")) return near;
    return null;
  };
  const typeOfControl = (node) => is(node, "input") ? reader(HTMLInputElement.prototype, "type")(node)
    : is(node, "button") ? reader(HTMLButtonElement.prototype, "type")(node) : "";
  const isSubmitter = (node) => ["submit", "image"].includes(typeOfControl(node));

  // The parent element as it is drawn: out of a slot, and out of a shadow root, open or closed.
  const above = (node) => {
    const slot = node instanceof Element ? slotOf(node) : null;
    const parent = slot ?? parentOf(node);
    return parent instanceof ShadowRoot ? reader(ShadowRoot.prototype, "host")(parent) : parent;
  };
  const isWithin = (node, outer) => {
    for (let near = node; near; near = above(near)) if (near === outer) return true;
    return false;
  };
  const shown = (node) => {
    if (!(node instanceof Element)) return "nothing";
    const id = attribute(node, "id");
    return `<${tagOf(node)}${id ? ` id="${id.slice(0, 80)}"` : ""}>`;
  };

  // The element that a click activates without scripts: the nearest of these kinds around it.
  const activated = (node) => {
    for (let near = node; near instanceof Element; near = above(near)) {
      if (is(near, "button", "input", "summary") || (is(near, "a", "area") && has(near, "href"))) return near;
      if (is(near, "label")) return reader(HTMLLabelElement.prototype, "control")(near) ?? near;
    }
    return node;
  };

  const submission = (form, button) => {
    const own = (name) => button && has(button, `form${name}`);
    const prototype = is(button, "button") ? HTMLButtonElement.prototype : HTMLInputElement.prototype;
    const read = (name, label) => own(name) ? reader(prototype, label)(button)
      : reader(HTMLFormElement.prototype, name)(form);
    const elements = Array.from(reader(HTMLFormElement.prototype, "elements")(form)).slice(0, 500);
    const fields = elements.filter((node) => is(node, "input", "select", "textarea", "button"))
      .map((node) => attribute(node, "name") ?? "").filter((name) => name !== "");
    return {
      method: read("method", "formMethod").toUpperCase(),
      action: read("action", "formAction") || reader(Document.prototype, "URL")(document),
      target: (read("target", "formTarget") || "").slice(0, 200),
      fields: Array.from(new Set(fields.map((name) => name.slice(0, 200)))),
    };
  };

  const inside = (box) => {
    const left = Math.max(box.left, 0), top = Math.max(box.top, 0);
    const right = Math.min(box.right, innerWidth), bottom = Math.min(box.bottom, innerHeight);
    return right - left >= 1 && bottom - top >= 1 ? { x: (left + right) / 2, y: (top + bottom) / 2 } : null;
  };
  const atPoint = (node, point) => {
    const root = rootOf(node);
    const prototype = root instanceof ShadowRoot ? ShadowRoot.prototype : Document.prototype;
    return caller(prototype, "elementFromPoint")(root, point.x, point.y);
  };
  const asBox = (box) => ({ x: box.left, y: box.top, width: box.width, height: box.height });

  const secretWords = (node) => [attribute(node, "name"), attribute(node, "id"), attribute(node, "aria-label"),
    attribute(node, "placeholder"), attribute(node, "autocomplete")].filter(Boolean).map((word) => word.slice(0, 200));

  // Also in open shadow roots. A closed one cannot be read from outside.
  const inputs = () => {
    const found = [], waiting = [document];
    while (waiting.length && found.length < 2000) {
      const root = waiting.pop();
      const walker = caller(Document.prototype, "createTreeWalker")(document, root, NodeFilter.SHOW_ELEMENT);
      for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        if (is(node, "input", "textarea") || (isHtml(node) && has(node, "contenteditable"))) found.push(node);
        const inner = shadowOf(node);
        if (inner) waiting.push(inner);
      }
    }
    return found;
  };

  const TEXT_TYPES = ["text", "search", "url", "tel", "email", "password"];
  const SET_TYPES = ["number", "date", "datetime-local", "month", "time", "week", "color", "range"];
  const howToType = (node) => {
    if (is(node, "textarea")) return "insert";
    if (is(node, "select")) return "choose";
    if (is(node, "input")) {
      const type = typeOfControl(node);
      return TEXT_TYPES.includes(type) ? "insert" : SET_TYPES.includes(type) ? "set" : "never";
    }
    return isHtml(node) && reader(HTMLElement.prototype, "isContentEditable")(node) ? "insert" : "never";
  };
  const isReadOnly = (node) => is(node, "input", "textarea") && has(node, "readonly");

  const dispatch = caller(EventTarget.prototype, "dispatchEvent");
  // Events from this code are caused by the agent too, though the browser does not mark them so. An event informs
  // `put_off.js` of that.
  const changed = (node, name) => {
    if (name) dispatch(world, new Event(`${name}-begin`));
    dispatch(node, new Event("input", { bubbles: true, composed: true }));
    dispatch(node, new Event("change", { bubbles: true }));
  };

  // A symbol, because the window has its elements under their names.
  const world = globalThis, GUARD = Symbol.for("remit");

  const methods = {
    find: (_, selector) => {
      let found;
      try { found = all(document, selector); } catch { return -1; }
      return found.length === 1 ? found[0] : found.length;
    },
    isThere: (node) => typeOf(node) === 1 && isConnected(node),
    scroll: (node) => {
      caller(Element.prototype, "scrollIntoView")(node, { block: "center", inline: "center", behavior: "instant" });
    },
    // Everything that is needed before a press, in one call.
    look: (node) => {
      if (!methods.aim(node).point) methods.scroll(node);
      return { ...methods.describe(node), aimed: methods.aim(node) };
    },
    describe: (node) => {
      const acts = activated(node), form = formOf(node);
      const button = isSubmitter(acts) && formOf(acts) ? acts : null;
      const owner = button ? formOf(button) : form;
      return {
        url: reader(Document.prototype, "URL")(document),
        tag: tagOf(node),
        type: typeOfControl(node),
        visible: isVisible(node, { opacityProperty: true, visibilityProperty: true }) && boxesOf(node).length > 0,
        enabled: !matches(node, ":disabled") && !matches(acts, ":disabled") &&
          attribute(node, "aria-disabled") !== "true",
        isPassword: typeOfControl(node) === "password",
        words: secretWords(node),
        typing: howToType(node),
        readOnly: isReadOnly(node),
        submits: button !== null && !matches(button, ":disabled"),
        isSubmitter: isSubmitter(node),
        form: owner ? submission(owner, button) : null,
        href: is(acts, "a", "area") ? (reader(is(acts, "a") ? HTMLAnchorElement.prototype :
          HTMLAreaElement.prototype, "href")(acts) || null) : null,
      };
    },
    // The point to press, in this frame's own coordinates, or the element that covers it.
    aim: (node) => {
      for (const box of Array.from(boxesOf(node)).slice(0, 20)) {
        const point = inside(box);
        if (!point) continue;
        const hit = atPoint(node, point);
        return hit && isWithin(hit, node) ? { point, box: asBox(boxOf(node)) } : { covered: shown(hit) };
      }
      return { outside: true, box: asBox(boxOf(node)) };
    },
    box: (node) => asBox(boxOf(node)),
    isAt: (node, point) => { const hit = atPoint(node, point); return hit !== null && isWithin(hit, node); },
    // From now on until after the next click, a press that does not hit the element has no default effect. After it
    // has hit, the page gets the whole press: a menu that opens under the pointer gets the rest of it, as from a
    // person. Only a click on an element that was neither in this element nor around it is blocked.
    guard: (node) => {
      world[GUARD]?.end();
      const aimed = methods.aim(node);
      if (!aimed.point) return aimed;
      const names = ["pointerdown", "mousedown", "pointerup", "mouseup", "click", "auxclick", "dblclick"];
      const around = [];
      for (let near = node; near; near = above(near)) around.push(near);
      let say, landed = false, came = "";
      const verdict = new Promise((resolve) => { say = resolve; });
      const word = () => came ? `missed ${came}` : landed ? "hit" : "missed everything";
      const end = () => {
        names.forEach((name) => removeEventListener(name, look, true));
        say(word());
      };
      const look = (event) => {
        if (!event.isTrusted) return;
        const path = event.composedPath();
        // For a closed shadow root, the path has only its host.
        const hit = path.includes(node) || (rootOf(node) instanceof ShadowRoot && isWithin(node, path[0]));
        const isClick = event.type.endsWith("click");
        if (!came && hit && (event.type === "pointerdown" || event.type === "mousedown")) landed = true;
        if (!hit && (!landed || (isClick && !around.includes(path[0])))) {
          came ||= shown(path[0]);
          event.preventDefault();
          event.stopImmediatePropagation();
        }
        if (event.type === "click") say(word());
        // If a click comes, it comes directly after this, before any timer. A list that opens gets no click.
        if (event.type === "mouseup") setTimeout(end, 0);
      };
      for (const name of names) addEventListener(name, look, { capture: true, passive: false });
      world[GUARD] = { verdict, end };
      return aimed;
    },
    // Called before the press, because a click may navigate and this document can then no longer be called.
    verdict: () => world[GUARD].verdict,
    unguard: () => world[GUARD]?.end(),
    select: (node) => {
      caller(HTMLElement.prototype, "focus")(node, { preventScroll: true });
      if (is(node, "input")) caller(HTMLInputElement.prototype, "select")(node);
      else if (is(node, "textarea")) caller(HTMLTextAreaElement.prototype, "select")(node);
      else getSelection().selectAllChildren(node);
      const root = rootOf(node);
      const prototype = root instanceof ShadowRoot ? ShadowRoot.prototype : Document.prototype;
      const active = reader(prototype, "activeElement")(root);
      return active === node || (active !== null && isWithin(node, active) && howToType(node) === "insert" &&
        !is(node, "input", "textarea"));
    },
    set: (node, { text, name }) => {
      Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(node, text);
      changed(node, name);
      return reader(HTMLInputElement.prototype, "value")(node) === text;
    },
    choose: (node, { text, name }) => {
      const options = Array.from(reader(HTMLSelectElement.prototype, "options")(node));
      const value = reader(HTMLOptionElement.prototype, "value"), label = reader(HTMLOptionElement.prototype, "label");
      const found = options.filter((option) => value(option) === text || label(option) === text);
      if (found.length !== 1 || matches(found[0], ":disabled")) return false;
      Object.getOwnPropertyDescriptor(HTMLOptionElement.prototype, "selected").set.call(found[0], true);
      changed(node, name);
      return true;
    },
    submit: (node) => {
      const form = formOf(node);
      // In a timer, so that this call returns before the page is left.
      setTimeout(() => caller(HTMLFormElement.prototype, "requestSubmit")(form), 0);
    },
    // After the page has finished its current work: whether it has deferred work because of the action. `put_off.js` in
    // the page's own world answers that, over an event whose name only the two know.
    rest: (_, name) => new Promise((done) => setTimeout(() => setTimeout(() => done(methods.putsOff(_, name)), 0), 0)),
    putsOff: (_, name) => name ? !dispatch(world, new Event(name, { cancelable: true })) : false,
    fields: () => inputs().slice(0, 2000).map((node) => ({
      type: typeOfControl(node),
      words: secretWords(node),
      value: (is(node, "input") ? reader(HTMLInputElement.prototype, "value")(node)
        : is(node, "textarea") ? reader(HTMLTextAreaElement.prototype, "value")(node)
        : reader(Node.prototype, "textContent")(node)).slice(0, 500),
      box: asBox(boxOf(node)),
    })).filter((field) => field.box.width > 0 && field.box.height > 0),
    size: () => caller(Document.prototype, "getElementsByTagName")(document, "*").length,
    // For a page that is too large to be read whole: its usable elements, and its headings.
    usable: (_, most) => Array.from(all(document, "a[href], button, input, select, textarea, summary, label, iframe, " +
      "h1, h2, h3, h4, h5, h6, [role], [tabindex], [contenteditable]")).filter((node) => isVisible(node)).slice(0, most),
    serialise: () => {
      const root = rootElement(document);
      return { url: reader(Document.prototype, "URL")(document), html: root ? serialised(root) : "",
        title: reader(Document.prototype, "title")(document).slice(0, 500) };
    },
    text: (node) => {
      const form = node instanceof Element ? formOf(node) : null;
      const read = reader(HTMLElement.prototype, "innerText");
      const root = rootElement(document);
      return {
        form: form ? read(form).slice(0, 100000) : "",
        page: root instanceof HTMLElement ? read(root).slice(0, 200000) : "",
      };
    },
    owner: (node) => {
      const style = getComputedStyle(node);
      const edge = (name) => parseFloat(style.getPropertyValue(name)) || 0;
      const box = boxOf(node);
      const width = reader(HTMLElement.prototype, "offsetWidth")(node);
      const height = reader(HTMLElement.prototype, "offsetHeight")(node);
      return {
        x: box.left + edge("border-left-width") + edge("padding-left"),
        y: box.top + edge("border-top-width") + edge("padding-top"),
        straight: Math.abs(box.width - width) < 1 && Math.abs(box.height - height) < 1,
      };
    },
  };
  return methods[method](this, argument);
}
