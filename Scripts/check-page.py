#!/usr/bin/env python3
"""Checks the page of `forge serve` in headless Chromium.

    Scripts/check-page.py [--build DIR] [--keys N] [--million N] [--screenshots DIR]

Needs Debian's `chromium`, PyPI's `playwright`, and a build with the trait:
    swift build --traits Inspector --scratch-path DIR
Makes its stores with `InspectorFixture`, which also writes to them as another process. Ends with a line that counts.
"""

import argparse
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request

from playwright.sync_api import Error, sync_playwright

SECRETS = ["SECRET-VALUE", "hidden-name-api-token"]


class Served:
    """A running `forge serve`."""

    def __init__(self, build, directory, *options):
        self.process = subprocess.Popen(
            [build / "forge", "serve", str(directory), *options], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        self.base, self.token = self.url.split("/#")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(30)
        assert status == 0, f"forge serve ended with status {status}"

    def status(self, path, method="GET", body=None, **headers):
        """The status and the text of the answer to a request with the right token, unless it is given."""
        headers = {"Authorization": f"Bearer {self.token}", **{name.title(): value for name, value in headers.items()}}
        request = urllib.request.Request(
            self.base + path, method=method, data=body and json.dumps(body).encode(),
            headers={name: value for name, value in headers.items() if value is not None})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


class Holder:
    """Another process that has a store open and writes to it."""

    def __init__(self, build, store, *options):
        self.process = subprocess.Popen(
            [build / "InspectorFixture", "hold", str(store), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, bufsize=1)
        assert self.process.stdout.readline() == "ready\n"

    def set(self, key, value):
        self.process.stdin.write(f"{key} {value}\n")
        assert self.process.stdout.readline() == "set\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(30)


class Checks:
    def __init__(self, options):
        self.options = options
        self.build = pathlib.Path(options.build).resolve()
        self.passed = self.failed = 0

    def expect(self, condition, text):
        if condition:
            self.passed += 1
            print("ok   " + text, flush=True)
        else:
            self.failed += 1
            print("FAIL " + text, flush=True)

    def open(self, browser, served, scheme="light"):
        """A page of a server, with all that it receives recorded."""
        page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme=scheme)
        page.set_default_timeout(60_000)
        page.received, page.problems = [], []

        def finished(request):
            try:
                page.received.append(request.response().text())
            except Error:
                if not page.is_closed():
                    raise

        page.on("requestfinished", finished)
        page.on("console", lambda message: page.problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.goto(served.url)
        page.wait_for_selector("#live.on, #live.off")
        return page

    def becomes_true(self, page, expression):
        """Whether an expression becomes true within 20 s; the page's policy forbids `wait_for_function`."""
        deadline = time.monotonic() + 20
        while not page.evaluate(expression):
            if time.monotonic() > deadline:
                return False
            page.wait_for_timeout(50)
        return True

    def store(self, page, name):
        page.locator("#stores li", has=page.get_by_text(name, exact=True)).first.click()

    def rows(self, page):
        return page.locator("#list .row:not([hidden]) .key").all_inner_texts()

    def row(self, page, name):
        return page.locator("#list .row:not([hidden])", has=page.get_by_text(name, exact=True)).first

    def run(self):
        with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
            root = pathlib.Path(directory) / "app"
            subprocess.run([self.build / "InspectorFixture", "make", str(root)], check=True)
            many = pathlib.Path(directory) / "many"
            subprocess.run(
                [self.build / "InspectorFixture", "keys", str(many / "keys"), str(self.options.keys)], check=True)
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-dev-shm-usage"])
            self.browser = browser
            self.run_section(self.check_reading, root)
            self.run_section(self.check_refusals, root)
            self.run_section(self.check_editing, root)
            self.run_section(self.check_widths, root)
            self.run_section(self.check_log, root)
            self.run_section(self.check_names, pathlib.Path(directory) / "names")
            self.run_section(self.check_following, pathlib.Path(directory) / "followed")
            self.run_section(self.check_scrolling, many)
            if self.options.million:
                million = pathlib.Path(directory) / "million"
                subprocess.run(
                    [self.build / "InspectorFixture", "keys", str(million / "keys"), str(self.options.million)],
                    check=True)
                self.run_section(self.check_million, million)
            browser.close()
        print(f"{self.passed} passed, {self.failed} failed")
        return self.failed == 0

    def run_section(self, check, root):
        """Runs checks up to the first that cannot go on, which has failed."""
        try:
            check(root)
        except (AssertionError, Error, OSError, subprocess.SubprocessError) as error:
            line = traceback.extract_tb(error.__traceback__)[1].lineno
            self.expect(False, f"{check.__name__}, line {line}: {str(error).splitlines()[0]}")

    def check_reading(self, root):
        key = (root / "secrets/vault.key").read_bytes()
        with Served(self.build, root, "--vault-key", str(root / "secrets/vault.key")) as served:
            page = self.open(self.browser, served)
            page.wait_for_selector("#stores li")
            names = page.locator("#stores li").all_inner_texts()
            self.expect(
                all(any(name in line for line in names) for name in
                    ["settings", "damaged", "secrets/vault", "cache", "Files", "Sessions"]),
                "loads and lists every store")
            self.expect(page.locator("#mode").inner_text() == "read-only", "says that it only reads")

            self.store(page, "settings")
            self.row(page, "appearance/").click()
            self.row(page, "theme").wait_for()
            self.expect(self.rows(page) == ["compact", "scale", "theme"], "opens a group of the tree")
            self.row(page, "theme").click()
            page.wait_for_selector("#value")
            detail = page.locator("#detail").inner_text()
            self.expect('"dusk"' in detail and "string" in detail, "shows a value with its type")
            self.expect(page.locator("#edit").count() == 0, "offers no editing without --write")

            with Holder(self.build, root / "settings") as holder:
                holder.set("live/before", "first")
                page.get_by_text("live/before").first.wait_for()
                start = time.monotonic()
                holder.set("live/now", "second")
                page.locator("#events", has_text="live/now").wait_for()
                passed = time.monotonic() - start
                self.expect(passed < 1, f"shows a change by another process within a second ({passed:.2f} s)")
                holder.set("appearance/theme", "dawn")
                page.locator("#value", has_text="dawn").wait_for()
                self.expect(True, "shows the new value of the open key")

            page.keyboard.press("Escape")
            page.keyboard.press("/")
            page.keyboard.type("counters/3")
            self.row(page, "counters/39").wait_for()
            found = self.rows(page)
            self.expect(
                found == ["counters/3"] + [f"counters/3{digit}" for digit in range(10)], "searches keys")
            page.keyboard.press("Enter")
            page.keyboard.press("ArrowDown")
            page.keyboard.press("ArrowDown")
            page.keyboard.press("Enter")
            page.locator("#detail h3", has_text="counters/31").wait_for()
            self.expect(True, "is used by keyboard")
            page.keyboard.press("Escape")
            page.keyboard.press("Escape")
            self.row(page, "theme").wait_for()
            self.expect(page.locator("#search").input_value() == "", "Escape closes the value, then the search")
            page.keyboard.press("Escape")
            self.row(page, "counters/").wait_for()
            self.expect(True, "and then goes up in the tree")
            page.locator("#order").select_option("size")
            self.row(page, "users/ada/note").wait_for()
            self.expect(self.rows(page)[0] == "users/ada/note", "sorts by size")
            self.row(page, "users/ada/note").click()
            page.locator("#detail", has_text="The beginning").wait_for()
            text = page.locator("#value").inner_text()
            self.expect(text.startswith("A long note.") and 60_000 < len(text) <= 65536,
                        "previews 64 KiB of a larger value")
            page.locator("#order").select_option("tree")

            self.store(page, "damaged")
            page.locator("#logtoggle").click()
            page.wait_for_selector("#note canvas")
            text = page.locator("#note").inner_text()
            self.expect("damaged: bytes" in text and "quarantine: quarantine-records" in text,
                        "draws the log with its damage and what was set aside")

            self.store(page, "Files")
            self.row(page, "documents").click()
            self.row(page, "images").click()
            self.row(page, "dot.png").click()
            self.expect(self.becomes_true(page, "document.querySelector('#detail img')?.naturalWidth === 1"),
                        "shows an image of the file tree")
            page.locator("#crumbs button").first.click()
            self.row(page, "secrets").click()
            self.row(page, "vault.key").click()
            page.locator("#detail", has_text="not shown").wait_for()
            self.expect(True, "does not show the file of a key")

            self.store(page, "Sessions")
            self.row(page, "sessions/5f2a").wait_for()
            self.expect("2096-10-02 07:06:40" in page.locator("#list").inner_text(), "lists sessions and their end")
            self.store(page, "cache")
            page.locator("#note", has_text="30 entries").wait_for()
            self.expect("known only inside the process" in page.locator("#note").inner_text(),
                        "lists the entries of a cache, and does not pretend to know its hit rates")

            self.store(page, "secrets/vault")
            page.locator("#note", has_text="sealed: 2 secrets").wait_for()
            received = "\n".join(page.received)
            needles = SECRETS + [key[8:40].hex(), key[8:40].hex(" ")]
            self.expect(len(page.received) > 20 and not any(needle in received for needle in needles),
                        f"no secret in {len(page.received)} responses before unlock")
            page.locator("#unlock").click()
            self.row(page, "hidden-name-api-token").wait_for()
            self.expect(True, "lists the names of an unlocked vault")
            self.expect("SECRET-VALUE" not in "\n".join(page.received), "never sends the value of a secret")

            blocked = page.evaluate("""() => new Promise(resolve => {
                document.addEventListener("securitypolicyviolation", event => resolve(event.violatedDirective));
                const script = document.createElement("script");
                script.textContent = "window.wasRun = true";
                document.head.append(script);
                setTimeout(() => resolve("nothing"), 1000);
            })""")
            self.expect(blocked.startswith("script-src") and not page.evaluate("window.wasRun"),
                        "the policy blocks a script in the page")
            problems = [text for text in page.problems if "Content Security Policy" not in text]
            self.expect(problems == [], f"no error in the console {problems}")
            self.take_screenshots(served)
            page.close()

    def take_screenshots(self, served):
        if not self.options.screenshots:
            return
        for scheme in ["light", "dark"]:
            page = self.open(self.browser, served, scheme)
            self.store(page, "settings" if scheme == "light" else "damaged")
            if scheme == "light":
                self.row(page, "users/").click()
                self.row(page, "ada/").click()
                self.row(page, "profile").click()
                page.wait_for_selector("#value")
            else:
                page.locator("#logtoggle").click()
                page.wait_for_selector("#note canvas")
            # Nobody's temporary directory belongs into a picture.
            page.evaluate("document.querySelector('#directory').textContent = '~/app'")
            page.wait_for_timeout(400)
            place = pathlib.Path(self.options.screenshots)
            place.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=str(place / f"page-{scheme}.png"))
            page.close()

    def check_refusals(self, root):
        with Served(self.build, root) as served:
            port = served.base.rsplit(":", 1)[1]
            second = subprocess.run(
                [self.build / "forge", "serve", str(root), "--port", port], capture_output=True, text=True, timeout=60)
            self.expect(second.returncode == 1 and second.stdout == "" and second.stderr.count("\n") == 1,
                        f"prints one line for a port in use: {second.stderr.strip()}")
            self.expect(served.status("/api/stores")[0] == 200, "answers with the token")
            self.expect(served.status("/api/stores", authorization=None) == (401, ""), "refuses without the token")
            self.expect(served.status("/api/stores", authorization="Bearer x")[0] == 401, "refuses another token")
            self.expect(served.status("/api/stores", host="example.org")[0] == 403, "refuses another host")
            self.expect(served.status("/api/stores", origin="http://example.org")[0] == 403, "refuses another origin")
            edit = {"store": "settings", "edits": [{"key": "x", "json": "1"}]}
            self.expect(served.status("/api/edits", "POST", edit)[0] == 403, "refuses a write without an origin")
            status, text = served.status("/api/edits", "POST", edit, origin=served.base)
            self.expect(status == 403 and "--write" in text, "refuses every write without --write")
            page = self.browser.new_page()
            page.goto(served.base + "/#wrong")
            page.locator("#live.off", has_text="refused").wait_for()
            self.expect(page.locator("#stores li").count() == 0, "shows nothing with a wrong token in the fragment")
            page.close()

    def check_editing(self, root):
        with Served(self.build, root, "--write") as served:
            page = self.open(self.browser, served)

            def stage(key, text, store="settings"):
                self.store(page, store)
                page.locator("#search").fill(key)
                self.row(page, key).click()
                page.locator("#edit").click()
                page.locator("#editor").fill(text)
                page.locator("#stage").click()
                page.wait_for_selector("#apply")

            def apply():
                page.locator("#apply").click()
                page.wait_for_selector("#result")
                return page.locator("#result").inner_text()

            stage("appearance/scale", "2")
            diff = page.locator("#staged .diff")
            self.expect(diff.locator("del").inner_text() == "1.25" and diff.locator("ins").inner_text() == "2",
                        "shows a staged edit as a difference")
            self.expect(apply() == "Stored.", "stores an edit")
            page.locator("#events li", has_text="appearance/scale").wait_for()
            self.expect(self.becomes_true(page, "document.querySelector('#value')?.textContent.startsWith('2')"),
                        "shows the new value after that")
            event = page.locator("#events li", has_text="appearance/scale").first.inner_text()
            self.expect("here" in event, "and its change as the page's own")
            stage("appearance/scale", "3")
            self.expect(apply() == "Stored.", "stores an edit of the value that it has just stored")
            stage("appearance/scale", '"Infinity"')
            self.expect(apply() == "Stored.", "stores a number that JSON does not have")
            page.locator("#detail dd", has_text="number").wait_for()
            stage("launch-count", '"many"')
            self.expect("type" in apply(), "refuses a value of another type")
            page.locator("#staged button", has_text="Discard").click()
            with Holder(self.build, root / "settings") as holder:
                stage("appearance/theme", "\"noon\"")
                text = apply()
                self.expect("another process has opened this store" in text,
                            "refuses an edit of an exclusively opened store, with the reason")
                holder.set("appearance/theme", "other")
            text = apply()
            self.expect("has changed since it was read" in text, "refuses an edit after the revision has moved")
            page.locator("#staged button", has_text="Discard").click()
            with Holder(self.build, root / "team", "shared") as holder:
                holder.set("motto", "slow")
                page.locator("#stores li", has=page.get_by_text("team", exact=True)).wait_for()
                stage("motto", '"fast"', "team")
                self.expect(apply() == "Stored.", "stores an edit of a store that another process shares")
                page.locator("#value", has_text="fast").wait_for()
                holder.set("motto", "steady")
                page.locator("#value", has_text="steady").wait_for()
                self.expect(True, "which goes on writing")
            page.close()

    def check_widths(self, root):
        """Nothing overlaps, and the list can be read, at the widths of a telephone, a tablet and a screen."""
        with Served(self.build, root, "--write") as served:
            for width in [390, 820, 1400]:
                for scheme in ["light", "dark"]:
                    page = self.open(self.browser, served, scheme)
                    page.set_viewport_size({"width": width, "height": 800})
                    self.store(page, "settings")
                    page.locator("#search").fill("launch-count")
                    # The rows are used again: the one that has the key before the search is hidden by it.
                    self.becomes_true(page, "document.querySelectorAll('#list .row:not([hidden])').length === 1")
                    self.row(page, "launch-count").wait_for()
                    key = page.locator("#list .row:not([hidden]) .key").first.bounding_box()
                    self.expect(key["width"] > 100 and page.locator("#list").bounding_box()["width"] > 300,
                                f"shows keys at {width} px, {scheme}")
                    overlaps = page.evaluate("""() => {
                        const boxes = ["header", "nav", "main", "#timeline", "footer"]
                            .map(name => [name, document.querySelector(name).getBoundingClientRect()])
                            .filter(([, box]) => box.width && box.height);
                        return boxes.flatMap(([name, a], index) => boxes.slice(index + 1)
                            .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
                                && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)
                            .map(([other]) => `${name} and ${other}`))
                            .concat(document.documentElement.scrollWidth > innerWidth ? ["wider than the window"] : []);
                    }""")
                    self.expect(overlaps == [], f"nothing overlaps at {width} px, {scheme} {overlaps}")
                    self.row(page, "launch-count").click()
                    page.wait_for_selector("#value")
                    box = page.locator("#detail").bounding_box()
                    self.expect(box["width"] > 250 and box["x"] + box["width"] <= width + 1,
                                f"shows a value at {width} px, {scheme}")
                    page.close()

    def check_log(self, root):
        with Served(self.build, root) as served:
            page = self.open(self.browser, served)
            with Holder(self.build, root / "team", "shared") as holder:
                for number in range(300):
                    holder.set("many", str(number))
                self.store(page, "team")
                page.locator("#logtoggle").click()
                page.wait_for_selector("#note canvas")
                self.becomes_true(page, "document.querySelector('#list').scrollHeight > 5000")
                page.evaluate("document.querySelector('#list').scrollTop = 2600")
                before = page.locator("#count").inner_text()
                page.evaluate("""() => {
                    window.lowest = 2600;
                    const list = document.querySelector("#list");
                    list.addEventListener("scroll", () => { window.lowest = Math.min(window.lowest, list.scrollTop); });
                }""")
                for number in range(5):
                    holder.set("live", str(number))
                    page.locator("#events li", has_text="live").first.wait_for()
                    page.wait_for_timeout(300)
                self.expect(page.locator("#count").inner_text() != before, "the log grows with each change")
                self.expect(page.evaluate("window.lowest") == 2600, "and stays at its place")
            page.close()

    def check_names(self, root):
        """No name shows a character that hides or changes what is beside it, wherever the page shows names."""
        names = ["\u202etxt.exe", "line\nfeed", "a\u2066b", "tab\tkey"]
        (root / "\u202edirectory").mkdir(parents=True)
        (root / "\u202edirectory" / "leaf\u2066").write_text("x")
        for name in names:
            (root / name).write_text("x")
        for store, keys in [("kv", names + ["\u202egroup/leaf\u2066"]), ("\u202estore", names)]:
            for key in keys:
                subprocess.run([self.build / "forge", "kv", "set", str(root / store), "--", key, "1"], check=True)
        with Served(self.build, root, "--write") as served:
            page = self.open(self.browser, served)

            def expect_escaped(place):
                found = page.evaluate("""() => {
                    const texts = [document.title];
                    const nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
                    while (nodes.nextNode()) texts.push(nodes.currentNode.data);
                    for (const name of ["title", "alt", "aria-label"]) {
                        for (const element of document.querySelectorAll(`[${name}]`)) texts.push(element.getAttribute(name));
                    }
                    return texts.filter(text => /[\\u202a-\\u202e\\u2066-\\u2069]|line\\nfeed|tab\\tkey/u.test(text));
                }""")
                self.expect(found == [], f"shows control characters of names by their numbers: {place} {found}")

            page.locator("#order").select_option("name")
            keys = ["\\u{202e}txt.exe", "line\\u{a}feed", "a\\u{2066}b", "tab\\u{9}key"]
            files = ["\\xe2\\x80\\xaetxt.exe", "line\\x0afeed", "a\\xe2\\x81\\xa6b", "tab\\x09key"]
            for place, shown in [("kv", keys), ("\\xe2\\x80\\xaestore", keys), ("Files", files)]:
                self.store(page, place)
                for name in shown:
                    self.row(page, name).wait_for()
                expect_escaped(f"the list of {place}")
                for name in shown:
                    self.row(page, name).click()
                    page.locator("#detail h3", has_text=name).first.wait_for()
                    expect_escaped(f"{name} in {place}")
                page.keyboard.press("Escape")
            self.row(page, "\\xe2\\x80\\xaedirectory").click()
            self.row(page, "leaf\\xe2\\x81\\xa6").click()
            page.locator("#detail h3", has_text="leaf").first.wait_for()
            expect_escaped("a file in a directory")

            self.store(page, "kv")
            page.locator("#order").select_option("tree")
            self.row(page, "\\u{202e}group/").click()
            self.row(page, "leaf\\u{2066}").click()
            page.locator("#edit").click()
            page.locator("#editor").fill("2")
            page.locator("#stage").click()
            page.wait_for_selector("#apply")
            expect_escaped("a staged edit in a group")
            with Holder(self.build, root / "kv") as holder:
                holder.set("\u202elive", "1")
                page.locator("#events code", has_text="\\u{202e}live").first.wait_for()
                (root / "\u2066seen").write_text("x")
                page.locator("#events code", has_text="\\xe2\\x81\\xa6seen").first.wait_for()
                expect_escaped("the timeline")
            page.close()

    def check_following(self, root):
        """What is open is shown as it is now, also if its change is not listed; Escape leaves levels one by one."""
        root.mkdir()
        (root / "note.txt").write_text("first")
        other = root.parent / "other"
        for place, value in [(root / "kv", "old"), (other, "new")]:
            lines = [json.dumps({"key": f"/many/{number:03}", "value": value}) for number in range(150)]
            subprocess.run([self.build / "forge", "copy", "json:-", f"kv:{place}"], input="\n".join(lines), text=True,
                           capture_output=True, check=True)
        with Served(self.build, root) as served:
            page = self.open(self.browser, served)
            self.store(page, "kv")
            page.locator("#search").fill("149")
            self.row(page, "/many/149").click()
            page.locator("#value", has_text="old").wait_for()
            # A store with equal revisions takes the place at once.
            (other / "log").rename(root / "kv/log")
            page.locator("#value", has_text="new").wait_for()
            page.locator("#events", has_text="and 50 more").wait_for()
            self.expect(True, "shows the new value of the open key, whose change is only counted")
            page.keyboard.press("Escape")
            page.keyboard.press("Escape")
            self.row(page, "/").click()
            self.row(page, "many/").click()
            self.row(page, "000").wait_for()
            page.keyboard.press("Escape")
            self.row(page, "many/").wait_for()
            page.keyboard.press("Escape")
            self.row(page, "/").wait_for()
            self.expect(True, "Escape goes up level by level below a name that begins with the delimiter")
            self.store(page, "Files")
            self.row(page, "note.txt").click()
            page.locator("#value", has_text="first").wait_for()
            (root / "note.txt").write_text("second, and longer")
            page.locator("#value", has_text="second").wait_for()
            self.expect(True, "shows the new content of the open file")
            page.close()

    def check_scrolling(self, root):
        with Served(self.build, root) as served:
            page = self.open(self.browser, served)
            page.locator("#order").select_option("name")
            page.locator("#count", has_text=f"{self.options.keys:,} rows").wait_for(timeout=60_000)
            result = page.evaluate("""() => new Promise(resolve => {
                const list = document.querySelector("#list");
                const times = [];
                let longest = 0;
                const step = now => {
                    if (times.length) longest = Math.max(longest, now - times.at(-1));
                    times.push(now);
                    list.scrollTop += 300;
                    if (now - times[0] < 5000) requestAnimationFrame(step);
                    else resolve({ rate: 1000 * (times.length - 1) / (now - times[0]), longest, top: list.scrollTop });
                };
                requestAnimationFrame(step);
            })""")
            self.expect(result["rate"] >= 30 and result["top"] > 30_000,
                        f"{self.options.keys:,} keys scroll at {result['rate']:.0f} frames per second"
                        f" (longest frame {result['longest']:.0f} ms)")
            self.expect(self.becomes_true(page, """[...document.querySelectorAll("#list .row:not([hidden])")]
                .every(row => row.children.length > 1)"""), "loads the rows at which the scrolling ends")
            self.expect(page.locator("#list .row").count() < 100, "has elements only for the visible rows")
            page.close()

    def check_million(self, root):
        with Served(self.build, root) as served:
            page = self.open(self.browser, served)
            page.set_default_timeout(180_000)
            page.locator("#order").select_option("name")
            page.locator("#count", has_text=f"{self.options.million:,} rows").wait_for()
            page.locator("#list").focus()
            page.keyboard.press("End")
            last = f"group99/{self.options.million - 1:06}"
            self.row(page, last).wait_for()
            self.expect(True, f"shows {self.options.million:,} keys, to the last")
            page.keyboard.press("Home")
            self.row(page, "group0/000000").wait_for()
            self.expect(True, "and back to the first")
            page.locator("#search").fill("99999")
            page.locator("#count", has_text="rows").wait_for()
            self.row(page, "group99/099999").wait_for()
            self.expect(True, "searches them")
            page.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=".build/debug")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--million", type=int, default=1_000_000, help="0 leaves it out")
    parser.add_argument("--screenshots")
    sys.exit(0 if Checks(parser.parse_args()).run() else 1)


if __name__ == "__main__":
    main()
