import Foundation
import Synchronization
import Testing

@testable import ForgeCommands

struct OutputTests {
    // Foundation has a type of the same name.
    private typealias Progress = ForgeCommands.Progress

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

    private func shown(_ style: Progress.Style) throws -> [String] {
        let shown = Mutex<[String]>([])
        let start = ContinuousClock.now
        let progress = Progress("files", style, start: start) { text in shown.withLock { $0.append(text) } }
        progress.expect(.init(items: 10, bytes: 4096))
        for milliseconds in stride(from: 10, through: 2000, by: 10) {
            try progress.advance(
                items: 0, bytes: milliseconds <= 1024 ? 20 : 0, now: start + .milliseconds(milliseconds))
        }
        return shown.withLock { $0 }
    }

    @Test("a long table is printed in parts, with the widths of the first one")
    func parts() {
        var table = TextTable([("Name", .left), ("Bytes", .right)])
        table.add(["long name", "1"])
        #expect(table.takeLines() == ["Name       Bytes", "─────────  ─────", "long name      1"])
        table.add(["a", "22"])
        table.add(["a longer name", "333333"])
        #expect(table.takeLines() == ["a             22", "a longer name  333333"])
        #expect(table.takeLines().isEmpty && table.count == 0)
    }

    @Test("progress is shown on a terminal after a second and ten times a second, as JSON four times, and else never")
    func progress() throws {
        let lines = try shown(.line)
        #expect(lines.count == 11, "\(lines)")
        #expect(
            lines.last
                == "\r[#########...........] 49%  0 of 10 files  2.0 KiB, 1020 B/s  0:02 left\u{1B}[K", "\(lines)")
        let objects = try shown(.jsonLines)
        #expect(objects.count == 8, "\(objects)")
        #expect(objects.last?.hasPrefix("{\"bytes\":2040,\"items\":0,") == true, "\(objects)")
        #expect(try shown(.none).isEmpty)
    }

    @Test("a number of things is counted in words")
    func counts() {
        #expect(counted(1, "key") == "1 key")
        #expect(counted(0, "key") == "0 keys")
    }
}
