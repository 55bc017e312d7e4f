import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting

private let kept = letters("k", 90)
private let first = letters("a", 4200)
private let second = letters("b", 700)
private let later = letters("l", 4200)

extension Scene {
    /// A log with one record; more are appended, also by the recovery.
    static func log(_ log: TestLog = TestLog()) -> Scene {
        Scene { fileSystem in
            try fileSystem.makeDirectory("/d")
            try fileSystem.put("/d/log", TestLog.header + TestLog.record(kept))
        } recover: { fileSystem, crash in
            guard let found = try log.open(fileSystem) else { throw Broken("the log is gone") }
            var records = found.records
            // Records that an earlier recovery appended before it was interrupted.
            if crash.depth > 1, records.last == later { records.removeLast() }
            try demand(
                [kept, first, second].starts(with: records), "records of \(records.map(\.count)) bytes, not as written")
            try demand(records.count > crash.acknowledged.count, "an acknowledged record is lost")
            try log.append(later, at: found.end, to: fileSystem)
            try fileSystem.sync("/d/log")
            let after = log.parse(try fileSystem.content("/d/log") ?? [])?.records ?? []
            try demand(after == found.records + [later], "\(after.count) records after \(found.records.count) and one")
        }
    }

    /// A log that does not exist yet.
    static let logCreation = Scene { fileSystem in
        try fileSystem.makeDirectory("/d")
    } recover: { fileSystem, crash in
        let content = try fileSystem.content("/d/log") ?? []
        guard let found = TestLog().parse(content) else {
            try demand(crash.acknowledged.isEmpty, "the log is gone")
            try demand(content.count <= TestLog.header.count, "no header, but more behind it")
            return
        }
        try demand([kept].starts(with: found.records), "other records")
        try demand(crash.acknowledged != ["created", "kept"] || found.records == [kept], "the record is lost")
    }

    /// A log that is rewritten with fewer records, then appended to.
    static let compaction = Scene { fileSystem in
        try fileSystem.makeDirectory("/d")
        try fileSystem.put("/d/log", TestLog.header + TestLog.record(first) + TestLog.record(kept))
    } recover: { fileSystem, crash in
        guard let found = TestLog().parse(try fileSystem.content("/d/log") ?? []) else { throw Broken("no log") }
        var records = found.records
        if records.first == first { records.removeFirst() }
        try demand(records == [kept] || records == [kept, second], "records of \(records.map(\.count)) bytes")
        try demand(!crash.acknowledged.contains("second") || records.count == 2, "an acknowledged record is lost")
    }

    /// The number of records of 600 bytes, followed by the records.
    static let counted = Scene { fileSystem in
        try fileSystem.makeDirectory("/d")
        try fileSystem.put("/d/log", [1] + letters("x", 600))
    } recover: { fileSystem, crash in
        guard let content = try fileSystem.content("/d/log"), let count = content.first else { throw Broken("gone") }
        let expected = letters("x", 600) + letters("y", 600)
        let end = 600 * Int(count)
        try demand(content.count > end && content[1...].starts(with: expected[..<end]), "a record is not as written")
        try demand(crash.acknowledged.isEmpty || count == 2, "an acknowledged record is lost")
    }

    /// A page, and two copies of its new content.
    static func twoCopies(checksSums: Bool) -> Scene {
        Scene { fileSystem in
            try fileSystem.makeDirectory("/d")
            for copy in ["/d/one", "/d/two"] { try fileSystem.put(copy, TestLog.header + TestLog.record(kept + first)) }
        } recover: { fileSystem, crash in
            let log = TestLog(checksSums: checksSums)
            let pages = try ["/d/one", "/d/two"].compactMap { copy in
                log.parse(try fileSystem.content(copy) ?? [])?.records.first
            }
            guard let page = pages.first else { throw Broken("no copy is whole") }
            try demand(page == kept + first || page == kept + later, "a torn page")
            try demand(crash.acknowledged.isEmpty || page == kept + later, "an acknowledged page is lost")
        }
    }

    /// Two balances in two blocks with a constant sum; the log contains their old values.
    static let undo = Scene { fileSystem in
        try fileSystem.makeDirectory("/d")
        try fileSystem.put("/d/page", letters("5", 4096) + letters("5", 4096))
        try fileSystem.put("/d/log", TestLog.header)
    } recover: { fileSystem, crash in
        if let undo = try TestLog().open(fileSystem), let before = undo.records.last {
            try fileSystem.patch("/d/page", before.flatMap { [UInt8](repeating: $0, count: 4096) }, at: 0)
            try fileSystem.sync("/d/page")
            try fileSystem.cut("/d/log", to: TestLog.header.count)
            try fileSystem.sync("/d/log")
        }
        let page = try fileSystem.content("/d/page") ?? []
        let isBefore = page == letters("5", 4096) + letters("5", 4096)
        let isAfter = page == letters("4", 4096) + letters("6", 4096)
        try demand(isBefore || isAfter, "half of the transfer")
        try demand(crash.acknowledged.isEmpty || isAfter, "an acknowledged transfer is lost")
    }
}

extension Recipe {
    private static let appendTwo: Body = { fileSystem, run in
        try TestLog().append(first, to: fileSystem)
        try fileSystem.sync("/d/log", .data)
        run.acknowledge("first")
        try TestLog().append(second, to: fileSystem)
        try fileSystem.sync("/d/log", .data)
        run.acknowledge("second")
    }

    private static let appendBatch: Body = { fileSystem, run in
        try TestLog().append(first, second, to: fileSystem)
        try fileSystem.sync("/d/log", .data)
        run.acknowledge("first")
        run.acknowledge("second")
    }

    static let logs: [Recipe] = [
        .right("append to a log", .log(), appendTwo),
        .right("append a batch to a log", .log(), appendBatch),
        .right("create a log", .logCreation) { fileSystem, run in
            try fileSystem.put("/d/log", TestLog.header)
            try fileSystem.sync("/d/log")
            try fileSystem.sync("/d")
            run.acknowledge("created")
            try TestLog().append(kept, to: fileSystem)
            try fileSystem.sync("/d/log", .data)
            run.acknowledge("kept")
        },
        .right("compact a log", .compaction) { fileSystem, run in
            try fileSystem.put("/d/tmp", TestLog.header + TestLog.record(kept))
            try fileSystem.sync("/d/tmp")
            try fileSystem.move("/d/tmp", "/d/log")
            try fileSystem.sync("/d")
            try TestLog().append(second, to: fileSystem)
            try fileSystem.sync("/d/log")
            run.acknowledge("second")
        },
        .right("write two copies with checksums", .twoCopies(checksSums: true)) { fileSystem, run in
            for copy in ["/d/one", "/d/two"] {
                try fileSystem.patch(copy, TestLog.header + TestLog.record(kept + later), at: 0)
                try fileSystem.sync(copy)
            }
            run.acknowledge("page")
        },
        .right("undo log", .undo) { fileSystem, run in
            try TestLog().append(letters("5", 2), to: fileSystem)
            try fileSystem.sync("/d/log")
            try fileSystem.patch("/d/page", letters("4", 4096) + letters("6", 4096), at: 0)
            try fileSystem.sync("/d/page")
            try fileSystem.cut("/d/log", to: TestLog.header.count)
            try fileSystem.sync("/d/log")
            run.acknowledge("transfer")
        },
        .wrong("append and acknowledge without fsync", .log()) { fileSystem, run in
            try TestLog().append(first, to: fileSystem)
            run.acknowledge("first")
        },
        .wrong("read a log without checking sums", .log(TestLog(checksSums: false)), appendTwo),
        .wrong("take an empty record for a record", .log(TestLog(acceptsEmptyRecords: true)), appendTwo),
        .wrong("leave a torn tail and write over it", .log(TestLog(cutsTail: false)), appendBatch),
        .wrong(
            "leave a torn tail and append behind it", .log(TestLog(cutsTail: false, appendsAtLastRecord: false)),
            appendTwo),
        .wrong("fsync of another file than the log", .log()) { fileSystem, run in
            try TestLog().append(first, to: fileSystem)
            try fileSystem.put("/d/other", kept)
            try fileSystem.sync("/d/other")
            try fileSystem.sync("/d")
            run.acknowledge("first")
        },
        .wrong("fsync before the append instead of after it", .log()) { fileSystem, run in
            try fileSystem.sync("/d/log")
            try TestLog().append(first, to: fileSystem)
            run.acknowledge("first")
        },
        .wrong("go on after fsync of the log failed", .log()) { fileSystem, run in
            try TestLog().append(first, to: fileSystem)
            try fileSystem.failSync("/d/log")
            try TestLog().append(second, to: fileSystem)
            try fileSystem.sync("/d/log")
            run.acknowledge("first")
            run.acknowledge("second")
        },
        .wrong("create a log and append without fsync of the directory", holdsUnder: "freshInode", .logCreation) {
            fileSystem, run in
            try fileSystem.put("/d/log", TestLog.header)
            try fileSystem.sync("/d/log")
            run.acknowledge("created")
            try TestLog().append(kept, to: fileSystem)
            try fileSystem.sync("/d/log")
            run.acknowledge("kept")
        },
        .wrong("create a log without fsync of the header", .logCreation) { fileSystem, run in
            try fileSystem.put("/d/log", TestLog.header)
            try fileSystem.sync("/d")
            run.acknowledge("created")
        },
        .wrong("append to a compacted log before fsync of the directory", .compaction) { fileSystem, run in
            try fileSystem.put("/d/tmp", TestLog.header + TestLog.record(kept))
            try fileSystem.sync("/d/tmp")
            try fileSystem.move("/d/tmp", "/d/log")
            try TestLog().append(second, to: fileSystem)
            try fileSystem.sync("/d/log")
            run.acknowledge("second")
        },
        .wrong("compact without fsync of the new log", .compaction) { fileSystem, run in
            try fileSystem.put("/d/tmp", TestLog.header + TestLog.record(kept))
            try fileSystem.move("/d/tmp", "/d/log")
            try fileSystem.sync("/d")
        },
        .wrong("compact in place", holdsUnder: never, .compaction) { fileSystem, run in
            try fileSystem.put("/d/log", TestLog.header + TestLog.record(kept))
            try fileSystem.sync("/d/log")
        },
        .wrong("count records in a header that is written with them", .counted) { fileSystem, run in
            try fileSystem.patch("/d/log", letters("y", 600), at: 601)
            try fileSystem.patch("/d/log", [2], at: 0)
            try fileSystem.sync("/d/log")
            run.acknowledge("second")
        },
        .wrong("count records in a header that is durable before them", holdsUnder: never, .counted) {
            fileSystem, run in
            try fileSystem.patch("/d/log", [2], at: 0)
            try fileSystem.sync("/d/log")
            try fileSystem.patch("/d/log", letters("y", 600), at: 601)
            try fileSystem.sync("/d/log")
            run.acknowledge("second")
        },
        .right("count records in a header that is durable after them", .counted) { fileSystem, run in
            try fileSystem.patch("/d/log", letters("y", 600), at: 601)
            try fileSystem.sync("/d/log")
            try fileSystem.patch("/d/log", [2], at: 0)
            try fileSystem.sync("/d/log")
            run.acknowledge("second")
        },
        .wrong("write two copies without checksums", .twoCopies(checksSums: false)) { fileSystem, run in
            for copy in ["/d/one", "/d/two"] {
                try fileSystem.patch(copy, TestLog.header + TestLog.record(kept + later), at: 0)
                try fileSystem.sync(copy)
            }
            run.acknowledge("page")
        },
        .wrong("write two copies and synchronise them together", .twoCopies(checksSums: true)) { fileSystem, run in
            for copy in ["/d/one", "/d/two"] {
                try fileSystem.patch(copy, TestLog.header + TestLog.record(kept + later), at: 0)
            }
            for copy in ["/d/one", "/d/two"] { try fileSystem.sync(copy) }
            run.acknowledge("page")
        },
        .wrong("undo log that is synchronised with the page", .undo) { fileSystem, run in
            try TestLog().append(letters("5", 2), to: fileSystem)
            try fileSystem.patch("/d/page", letters("4", 4096) + letters("6", 4096), at: 0)
            try fileSystem.sync("/d/log")
            try fileSystem.sync("/d/page")
            try fileSystem.cut("/d/log", to: TestLog.header.count)
            try fileSystem.sync("/d/log")
            run.acknowledge("transfer")
        },
        .wrong("undo log that is cut before the page is durable", .undo) { fileSystem, run in
            try TestLog().append(letters("5", 2), to: fileSystem)
            try fileSystem.sync("/d/log")
            try fileSystem.patch("/d/page", letters("4", 4096) + letters("6", 4096), at: 0)
            try fileSystem.cut("/d/log", to: TestLog.header.count)
            try fileSystem.sync("/d/log")
            try fileSystem.sync("/d/page")
            run.acknowledge("transfer")
        },
    ]
}
