"""Headless Chromium, driven over its DevTools pipe: no port, so no other program on the machine can reach it."""
import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time

DEADLINE_S = int(os.environ.get("CONSOLE_DEADLINE_S", 60))
KEYS = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38, "End": 35, "Home": 36, " ": 32}


def chromium():
    return shutil.which("chromium")


def high(descriptor):
    """Duplicates a file to a descriptor other than 3 and 4, which Chromium requires for its pipe."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 20)
    os.close(descriptor)
    return moved


def peak_of(pid):
    """A process's peak memory in bytes."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return int([line.split()[1] for line in lines if line.startswith("VmHWM:")][0]) * 1024


class ScriptError(RuntimeError):
    """An exception thrown in the page."""


class Browser:
    def __init__(self, width=1240, height=800, trusts=()):
        """`trusts`: SHA-256 (base64) of public keys whose certificates are accepted without an authority."""
        self.home = tempfile.mkdtemp(prefix="verbena-browser-")
        self.count, self.buffer = 0, b""
        self.events = []
        into_r, self.into = map(high, os.pipe())
        self.out, out_w = map(high, os.pipe())

        def pipes():
            os.dup2(into_r, 3)
            os.dup2(out_w, 4)

        self.process = subprocess.Popen(
            [chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-default-browser-check", "--hide-scrollbars",
             "--force-device-scale-factor=1", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost", f"--user-data-dir={self.home}/profile",
             f"--window-size={width},{height}", "--remote-debugging-pipe",
             *([f"--ignore-certificate-errors-spki-list={','.join(trusts)}"] if trusts else []), "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(f"{self.home}/log", "wb"), preexec_fn=pipes, pass_fds=(3, 4),
            env=dict(os.environ, HOME=self.home), start_new_session=True)
        os.close(into_r)
        os.close(out_w)
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "DOM", "Inspector"):  # not Network: it would send each body, too
            self.tell(f"{domain}.enable")
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.into)
        os.close(self.out)
        shutil.rmtree(self.home, ignore_errors=True)

    def command(self, method, session=None, **params):
        self.count += 1
        mine = self.count
        message = {"id": mine, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.into, data):]
        deadline = time.monotonic() + DEADLINE_S
        while True:
            answer = self.read(deadline)
            if answer.get("id") == mine:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            if answer.get("method") == "Inspector.targetCrashed":
                raise RuntimeError("the page crashed")
            if "method" in answer:
                self.events.append(answer)

    def read(self, deadline):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.out], [], [], max(0, deadline - time.monotonic()))
            data = os.read(self.out, 1 << 20) if ready else b""
            if not data:
                log = pathlib.Path(self.home, "log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"the browser does not answer\n{log}")
            self.buffer += data
        one, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(one)

    def tell(self, method, **params):
        return self.command(method, self.session, **params)

    def run(self, script):
        """The value of an expression in the page; promises are awaited."""
        answer = self.tell("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in answer:
            raise ScriptError(f"{script}\n{answer['exceptionDetails'].get('exception', {}).get('description', answer['exceptionDetails'])}")
        return answer["result"].get("value")

    def wait(self, script, what=None, seconds=DEADLINE_S):
        deadline = time.monotonic() + seconds
        trouble = ""
        while time.monotonic() < deadline:
            try:
                value = self.run(script)
            except ScriptError as error:  # while the page is incomplete
                value, trouble = None, str(error)
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"did not come: {what or script}\n{trouble}\n{self.run('document.body.innerText')[:2000]}")

    def open(self, url):
        self.tell("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    # User actions. Elements are found by their accessible names.
    def find(self, text, tag="button, a, [role=tab], summary"):
        """An expression: the first visible element of that name, in the topmost window if there is one."""
        name, tags = json.dumps(text), json.dumps(tag)
        return (f"(() => {{ const top = Array.from(document.querySelectorAll('dialog[open]')).at(-1) || document; const fits = (e) => e.getClientRects().length && "
                f"(e.getAttribute('aria-label') || e.innerText || '').trim() === {name}; "
                f"return Array.from(top.querySelectorAll({tags})).find(fits) || Array.from(document.querySelectorAll({tags})).find(fits) }})()")

    def click(self, text, tag="button, a, [role=tab], summary"):
        element = self.find(text, tag)
        # Visible and not covered: a window may be closing. And at rest: content that is still loading may move it.
        self.wait(f"(async () => {{ const place = () => {{ const e = {element}; if (!e || e.disabled) return ''; e.scrollIntoView({{block: 'nearest'}}); "
                  f"const r = e.getBoundingClientRect(); const x = r.x + r.width / 2, y = r.y + r.height / 2; "
                  f"return e.contains(document.elementFromPoint(x, y)) ? x + ',' + y : '' }}; "
                  f"const before = place(); await new Promise((go) => setTimeout(go, 30)); "
                  f"return before !== '' && before === place() && !document.querySelector('main .loading') }})()", f"“{text}” to click on")
        box = self.run(f"(() => {{ const r = {element}.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] }})()")
        for kind in ("mousePressed", "mouseReleased"):
            self.tell("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def field(self, label):
        name = json.dumps(label)
        return (f"(() => {{ const top = Array.from(document.querySelectorAll('dialog[open]')).at(-1) || document; "
                f"return Array.from(top.querySelectorAll('input, textarea, select')).find((e) => e.getClientRects().length && (e.getAttribute('aria-label') || e.labels?.[0]?.innerText || '').trim().split('\\n')[0] === {name}) }})()")

    def fill(self, label, text):
        self.wait(f"Boolean({self.field(label)})", f"a field “{label}”")
        self.run(f"(() => {{ const e = {self.field(label)}; e.focus(); e.select?.() }})()")
        self.tell("Input.insertText", text=text)

    def choose(self, label, value):
        self.wait(f"Boolean({self.field(label)})", f"a choice “{label}”")
        self.run(f"(() => {{ const e = {self.field(label)}; e.value = {json.dumps(value)}; e.dispatchEvent(new Event('change', {{bubbles: true}})) }})()")

    def press(self, key):
        text = {"Enter": "\r", " ": " "}.get(key)
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.tell("Input.dispatchKeyEvent", type=kind, key=key, code="Space" if key == " " else key, windowsVirtualKeyCode=KEYS[key], **more)

    def give(self, selector, paths):
        """Gives files to an input, as the file dialog does."""
        root = self.tell("DOM.getDocument")["root"]["nodeId"]
        node = self.tell("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.tell("DOM.setFileInputFiles", nodeId=node, files=[str(path) for path in paths])

    def drop(self, selector, files):
        """Drops files: {name: text}."""
        self.run(f"""(() => {{ const data = new DataTransfer()
            for (const [name, text] of Object.entries({json.dumps(files)})) data.items.add(new File([text], name, {{type: 'text/plain'}}))
            for (const kind of ['dragenter', 'dragover', 'drop'])
              document.querySelector({json.dumps(selector)}).dispatchEvent(new DragEvent(kind, {{bubbles: true, cancelable: true, dataTransfer: data}})) }})()""")

    def sees(self, text, seconds=DEADLINE_S):
        self.wait(f"document.body.innerText.includes({json.dumps(text)})", f"the text “{text}”", seconds)

    def slow_uploads(self, bytes_per_s):
        """Of this page, from now on; 0: as fast as they go."""
        self.tell("Network.enable")
        self.tell("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1,
                  uploadThroughput=bytes_per_s or -1)

    def dark(self, on):
        self.tell("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"},
                                                         {"name": "prefers-reduced-motion", "value": "reduce"}])

    def picture(self, path):
        data = self.tell("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def renderers(self):
        """Ids of the renderer processes."""
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.getpgid(int(folder.name)) == self.process.pid and b"--type=renderer" in (folder / "cmdline").read_bytes():
                    found.append(folder.name)
            except OSError:
                pass  # it has ended meanwhile
        return found

    def watch_memory(self):
        """Resets the peak memory of the page's processes; returns a function for the growth of the peak since."""
        before = {}
        for pid in self.renderers():
            pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")  # resets the peak to the present size (proc(5))
            before[pid] = peak_of(pid)
        return lambda: sum(peak_of(pid) - before.get(pid, 0) for pid in self.renderers())

    def complaints(self):
        """The browser's reports about the page: policy violations, script errors."""
        self.run("1")
        found = []
        for event in self.events:
            if event["method"] == "Runtime.exceptionThrown":
                found.append(event["params"]["exceptionDetails"].get("exception", {}).get("description", "an exception"))
            if event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                entry = event["params"]["entry"]
                if entry["source"] != "network":  # statuses like 403 and 404, which tests cause on purpose
                    found.append(entry["text"])
        self.events = []
        return found
