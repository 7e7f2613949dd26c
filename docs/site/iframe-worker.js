// Search runs in a worker, which browsers refuse to pages that are opened from disk; there a hidden frame does its work.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const page = frame.contentDocument
      page.open()
      page.close()
      this.inside = frame.contentWindow
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.ready = new Promise((done, failed) => {
        const script = page.createElement("script")
        script.onload = done
        script.onerror = failed
        script.src = address
        page.head.append(script)
      })
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })))
    }
  }
}
