// Browsers start no workers from the file system: the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const inner = frame.contentWindow;
      const load = (source) => new Promise((done, failed) => {
        const script = inner.document.createElement("script");
        Object.assign(script, { src: source, onload: done, onerror: failed });
        inner.document.body.appendChild(script);
      });
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inner.importScripts = (...sources) => Promise.all(sources.map(load));
      this.deliver = (data) => inner.dispatchEvent(new inner.MessageEvent("message", { data }));
      load(url).then(() => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach(this.deliver);
      });
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.deliver(data);
    }
  };
}
