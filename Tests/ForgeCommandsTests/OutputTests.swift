import Foundation
import Synchronization
import Testing

@testable import ForgeCommands

struct OutputTests {
    @Test("a table is as wide as its widest cells, and no line ends in spaces")
    func table() {
        var table = TextTable([("Name", .left), ("Bytes", .right), ("Path", .left)])
        table.add(["a", "7", "x"])
        table.add(["longer", "12345678", ""])
        #expect(
            table.lines == [
                "Name       Bytes  Path",
                "──────  ────────  ────",
                "a              7  x",
                "longer  12345678",
            ])
    }

    @Test("progress is reported only after a second")
    func progress() {
        let shown = Mutex<[String]>([])
        let progress = Progress("files") { text in shown.withLock { $0.append(text) } }
        progress.step()
        #expect(shown.withLock { $0 }.isEmpty)
        progress.step(now: .now + .seconds(2))
        progress.step(now: .now + .seconds(2))
        progress.finish()
        #expect(shown.withLock { $0 } == ["\rfiles: 2", "\rfiles: 3, done\n"])
    }

    @Test("a number of things is counted in words")
    func counts() {
        #expect(counted(1, "key") == "1 key")
        #expect(counted(0, "key") == "0 keys")
    }
}
