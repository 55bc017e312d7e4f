import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage

private let old = letters("o", 700)
private let new = letters("n", 700)

extension InMemoryFileSystem {
    /// Replaces a file atomically and durably.
    fileprivate func replace(_ directory: String, _ name: String, _ bytes: [UInt8]) throws {
        let path = "\(directory)/\(name)"
        try put(path + ".new", bytes)
        try sync(path + ".new")
        try move(path + ".new", path)
        try sync(directory.isEmpty ? "/" : directory)
    }
}

extension RestartRecipe {
    static let all: [RestartRecipe] = [
        RestartRecipe(description: "a directory that exists") { fileSystem, trusts in
            for (path, parent) in [("/a", "/"), ("/a/b", "/a")] {
                let isNew = !fileSystem.has(path)
                if isNew { try fileSystem.makeDirectory(path) }
                if isNew || !trusts { try fileSystem.sync(parent) }
            }
            try fileSystem.replace("/a/b", "f", new)
        } check: { fileSystem in
            try demand(try fileSystem.content("/a/b/f") == new, "the file, or the way to it, is lost")
        },

        // Data encrypted with the key is lost without it.
        RestartRecipe(
            description: "a key file that exists", prepare: { try $0.makeDirectory("/keys") },
            program: { fileSystem, trusts in
                if try fileSystem.content("/keys/key") == nil {
                    let byte = UInt8(truncatingIfNeeded: fileSystem.randomBits())
                    try fileSystem.replace("/keys", "key", [UInt8](repeating: byte, count: 32))
                } else if !trusts {
                    try fileSystem.sync("/keys")
                }
                try fileSystem.replace("", "secret", try fileSystem.content("/keys/key") ?? [])
            },
            check: { fileSystem in
                try demand(try fileSystem.content("/keys/key") == fileSystem.content("/secret"), "another key")
            }),

        RestartRecipe(
            description: "a file that holds the new content", prepare: { try $0.put("/f", old) },
            program: { fileSystem, trusts in
                if try fileSystem.content("/f") != new {
                    try fileSystem.replace("", "f", new)
                } else if !trusts {
                    try fileSystem.sync("/")
                }
            }, check: { try demand(try $0.content("/f") == new, "the old content is back") }),

        RestartRecipe(
            description: "a log that a former run created", prepare: { try $0.makeDirectory("/d") },
            program: { fileSystem, trusts in
                let isNew = !fileSystem.has("/d/log")
                if isNew { try fileSystem.put("/d/log", letters("h", 16)) }
                if isNew || !trusts { try fileSystem.sync("/d") }
                try fileSystem.patch("/d/log", letters("r", 40))
                try fileSystem.sync("/d/log", .data)
            }, check: { try demand(try ($0.content("/d/log")?.count ?? 0) > 16, "the log is lost") }),

        RestartRecipe(
            description: "a record that is in the log", prepare: { try $0.put("/log", letters("h", 16)) },
            program: { fileSystem, trusts in
                if try fileSystem.content("/log")?.suffix(40) != letters("r", 40)[...] {
                    try fileSystem.cut("/log", to: 16)
                    try fileSystem.patch("/log", letters("r", 40))
                    try fileSystem.sync("/log")
                } else if !trusts {
                    try fileSystem.sync("/log")
                }
            }, check: { try demand(try $0.content("/log")?.suffix(40) == letters("r", 40)[...], "the record is lost") }),

        // A journal contains the old content while the new one is written in place.
        RestartRecipe(
            description: "a journal that is gone", prepare: { try $0.put("/f", old) },
            program: { fileSystem, trusts in
                if let content = try fileSystem.content("/journal"), content.count == old.count {
                    try fileSystem.patch("/f", content, at: 0)
                    try fileSystem.sync("/f")
                } else if try fileSystem.content("/f") == new {
                    return trusts ? () : try fileSystem.sync("/")
                }
                try fileSystem.replace("", "journal", old)
                try fileSystem.patch("/f", new, at: 0)
                try fileSystem.sync("/f")
                try fileSystem.remove("/journal")
                try fileSystem.sync("/")
            },
            check: { fileSystem in
                try demand(!fileSystem.has("/journal"), "the journal is back, and takes back what was acknowledged")
                try demand(try fileSystem.content("/f") == new, "the old content is back")
            }),

        RestartRecipe(
            description: "a pointer that leads to the new data",
            prepare: { fileSystem in
                try fileSystem.makeDirectory("/data")
                try fileSystem.put("/data/1", old)
                try fileSystem.put("/CURRENT", Array("1".utf8))
            },
            program: { fileSystem, trusts in
                if try fileSystem.content("/CURRENT") != Array("2".utf8) {
                    try fileSystem.put("/data/2", new)
                    try fileSystem.sync("/data/2")
                    try fileSystem.sync("/data")
                    try fileSystem.replace("", "CURRENT", Array("2".utf8))
                } else if !trusts {
                    try fileSystem.sync("/")
                }
                if fileSystem.has("/data/1") { try fileSystem.remove("/data/1") }
                try fileSystem.sync("/data")
            },
            check: { fileSystem in
                let name = try fileSystem.content("/CURRENT") ?? []
                let data = try fileSystem.content("/data/" + String(decoding: name, as: UTF8.self))
                try demand(data == new, "the pointer leads to \(data == nil ? "nothing" : "old data")")
            }),

        // A spare file is created in advance, so that a full disk cannot prevent the next save.
        RestartRecipe(description: "a spare file that is long enough") { fileSystem, trusts in
            let isNew = try (fileSystem.content("/spare")?.count ?? 0) < 8192
            if isNew {
                try fileSystem.put("/spare", [])
                try fileSystem.cut("/spare", to: 8192)
            }
            guard isNew || !trusts else { return }
            try fileSystem.sync("/spare")
            try fileSystem.sync("/")
        } check: { fileSystem in
            try demand(try fileSystem.content("/spare")?.count == 8192, "there is no spare")
        },

        // The index contains the data of the segment, which is removed.
        RestartRecipe(
            description: "an index that covers the log",
            prepare: { fileSystem in
                try fileSystem.makeDirectory("/log")
                try fileSystem.put("/log/1", new)
            },
            program: { fileSystem, trusts in
                if let segment = try fileSystem.content("/log/1"), try fileSystem.content("/index") == nil {
                    try fileSystem.replace("", "index", segment)
                } else if !trusts {
                    try fileSystem.sync("/")
                }
                if fileSystem.has("/log/1") { try fileSystem.remove("/log/1") }
                try fileSystem.sync("/log")
            }, check: { try demand(try $0.content("/index") == new, "neither index nor log") }),

        RestartRecipe(
            description: "a file that is gone", prepare: { try $0.put("/f", old) },
            program: { fileSystem, trusts in
                let isThere = fileSystem.has("/f")
                if isThere { try fileSystem.remove("/f") }
                if isThere || !trusts { try fileSystem.sync("/") }
            }, check: { try demand(!$0.has("/f"), "the removed file is back") }),

        // The lock file is linked into place, so that only one of two processes creates it.
        RestartRecipe(description: "a lock file that another process made") { fileSystem, trusts in
            if fileSystem.has("/tmp") { try fileSystem.remove("/tmp") }
            do {
                try fileSystem.put("/tmp", letters("l", 8))
                try fileSystem.sync("/tmp")
                try fileSystem.link("/tmp", to: "/lock")
                try fileSystem.sync("/")
            } catch let error as FileSystemError where error.errno == .fileExists {
                if !trusts { try fileSystem.sync("/") }
            }
        } check: { fileSystem in
            try demand(try fileSystem.content("/lock") == letters("l", 8), "there is no lock file")
        },

        RestartRecipe(
            description: "a mapped record that reads well",
            prepare: { try $0.put("/log", [UInt8](repeating: 0, count: 4096)) },
            program: { fileSystem, trusts in
                let record = letters("r", 64)
                if try fileSystem.content("/log")?.prefix(64) != record[...] {
                    try fileSystem.store("/log", record, at: 0)
                } else if trusts {
                    return
                }
                try fileSystem.writeBack("/log")
                try fileSystem.sync("/log", .data)
            }, check: { try demand(try $0.content("/log")?.prefix(64) == letters("r", 64)[...], "the record is lost") }),
    ]
}
