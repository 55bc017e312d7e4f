import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting

private let one = letters("1", 700)
private let two = letters("2", 700)

extension Scene {
    /// A pointer file that names the file with the data.
    static let pointer = Scene { fileSystem in
        try fileSystem.makeDirectory("/d")
        try fileSystem.put("/d/data.1", one)
        try fileSystem.put("/d/current", Array("data.1".utf8))
    } recover: { fileSystem, crash in
        guard let name = try fileSystem.content("/d/current") else { throw Broken("no pointer") }
        let data = try fileSystem.content("/d/" + String(decoding: name, as: UTF8.self))
        try demand(data == one || data == two, "the pointer leads to \(data?.count ?? -1) bytes")
        try demand(crash.acknowledged.isEmpty || data == two, "acknowledged data is lost")
    }

    /// A file to be removed.
    static let removal = Scene { fileSystem in
        try fileSystem.makeDirectory("/d")
        try fileSystem.put("/d/f", one)
    } recover: { fileSystem, crash in
        try demand(crash.acknowledged.isEmpty || !fileSystem.has("/d/f"), "the removed file is back")
    }

    /// A file that must be in exactly one of two directories.
    static let transfer = Scene { fileSystem in
        try fileSystem.makeDirectory("/queue")
        try fileSystem.makeDirectory("/done")
        try fileSystem.put("/queue/job", one)
    } recover: { fileSystem, crash in
        try demand(fileSystem.has("/queue/job") != fileSystem.has("/done/job"), "the job is in both places or in none")
        try demand(crash.acknowledged.isEmpty || fileSystem.has("/done/job"), "the job is to be done again")
    }

    /// A directory with two files that belong together.
    static let tree = Scene { fileSystem in
        try fileSystem.makeDirectory("/d")
        try fileSystem.makeDirectory("/d/album")
        try fileSystem.put("/d/album/1", one)
        try fileSystem.put("/d/album/2", two)
    } recover: { fileSystem, crash in
        try demand(fileSystem.has("/d/album/1") == fileSystem.has("/d/album/2"), "half of the tree")
        try demand(crash.acknowledged.isEmpty || !fileSystem.has("/d/album"), "the removed tree is back")
    }

    /// A file in directories that do not exist yet.
    static let chain = Scene { _ in
    } recover: { fileSystem, crash in
        guard !crash.acknowledged.isEmpty else { return }
        try demand(try fileSystem.content("/a/b/f") == one, "the file, or the way to it, is lost")
    }
}

extension Recipe {
    static let names: [Recipe] = [
        .right("switch a pointer to new data", .pointer) { fileSystem, run in
            try fileSystem.put("/d/data.2", two)
            try fileSystem.sync("/d/data.2")
            try fileSystem.sync("/d")
            try fileSystem.put("/d/tmp", Array("data.2".utf8))
            try fileSystem.sync("/d/tmp")
            try fileSystem.move("/d/tmp", "/d/current")
            try fileSystem.sync("/d")
            run.acknowledge("two")
            try fileSystem.remove("/d/data.1")
        },
        .wrong("switch a pointer before the data is durable", .pointer) { fileSystem, run in
            try fileSystem.put("/d/data.2", two)
            try fileSystem.put("/d/tmp", Array("data.2".utf8))
            try fileSystem.sync("/d/tmp")
            try fileSystem.move("/d/tmp", "/d/current")
            try fileSystem.sync("/d")
            try fileSystem.sync("/d/data.2")
            run.acknowledge("two")
        },
        .wrong("switch a pointer before the name of the data is durable", holdsUnder: "freshInode", .pointer) {
            fileSystem, run in
            try fileSystem.put("/d/data.2", two)
            try fileSystem.sync("/d/data.2")
            try fileSystem.put("/d/tmp", Array("data.2".utf8))
            try fileSystem.sync("/d/tmp")
            try fileSystem.move("/d/tmp", "/d/current")
            try fileSystem.sync("/d")
            run.acknowledge("two")
        },
        .wrong("remove the old data before the pointer is durable", holdsUnder: "orderedNames", .pointer) {
            fileSystem, run in
            try fileSystem.put("/d/data.2", two)
            try fileSystem.sync("/d/data.2")
            try fileSystem.sync("/d")
            try fileSystem.put("/d/tmp", Array("data.2".utf8))
            try fileSystem.sync("/d/tmp")
            try fileSystem.move("/d/tmp", "/d/current")
            try fileSystem.remove("/d/data.1")
            try fileSystem.sync("/d")
            run.acknowledge("two")
        },
        .wrong("write the pointer in place", holdsUnder: never, .pointer) { fileSystem, run in
            try fileSystem.put("/d/data.2", two)
            try fileSystem.sync("/d/data.2")
            try fileSystem.sync("/d")
            try fileSystem.put("/d/current", Array("data.2".utf8))
            try fileSystem.sync("/d/current")
            run.acknowledge("two")
        },
        .right("remove a file", .removal) { fileSystem, run in
            try fileSystem.remove("/d/f")
            try fileSystem.sync("/d")
            run.acknowledge("gone")
        },
        .wrong("remove a file without fsync of the directory", .removal) { fileSystem, run in
            try fileSystem.remove("/d/f")
            run.acknowledge("gone")
        },
        .wrong("remove a file with fsync of the directory above", .removal) { fileSystem, run in
            try fileSystem.remove("/d/f")
            try fileSystem.sync("/")
            run.acknowledge("gone")
        },
        .wrong("rename a removed file aside without fsync", .removal) { fileSystem, run in
            try fileSystem.move("/d/f", "/d/trash")
            run.acknowledge("gone")
        },
        .wrong("move a job between directories with a rename", holdsUnder: "orderedNames", .transfer) {
            fileSystem, run in
            try fileSystem.move("/queue/job", "/done/job")
            try fileSystem.sync("/done")
            try fileSystem.sync("/queue")
            run.acknowledge("done")
        },
        .wrong("move a job between directories with fsync of the new one only", holdsUnder: "orderedNames", .transfer) {
            fileSystem, run in
            try fileSystem.move("/queue/job", "/done/job")
            try fileSystem.sync("/done")
            run.acknowledge("done")
        },
        .wrong("move a job between directories by link and unlink", holdsUnder: never, .transfer) { fileSystem, run in
            try fileSystem.link("/queue/job", to: "/done/job")
            try fileSystem.sync("/done")
            try fileSystem.remove("/queue/job")
            try fileSystem.sync("/queue")
            run.acknowledge("done")
        },
        .right("remove a tree by a rename", .tree) { fileSystem, run in
            try fileSystem.move("/d/album", "/d/trash")
            try fileSystem.sync("/d")
            run.acknowledge("gone")
            try fileSystem.removeTree("/d/trash")
        },
        .wrong("remove a tree piece by piece", holdsUnder: never, .tree) { fileSystem, run in
            try fileSystem.removeTree("/d/album")
            try fileSystem.sync("/d")
            run.acknowledge("gone")
        },
        .wrong("remove a renamed tree before the rename is durable", holdsUnder: "orderedNames", .tree) {
            fileSystem, run in
            try fileSystem.move("/d/album", "/d/trash")
            try fileSystem.removeTree("/d/trash")
            try fileSystem.sync("/d")
            run.acknowledge("gone")
        },
        .right("create a chain of directories", .chain) { fileSystem, run in
            try fileSystem.makeDirectory("/a")
            try fileSystem.sync("/")
            try fileSystem.makeDirectory("/a/b")
            try fileSystem.sync("/a")
            try fileSystem.put("/a/b/f", one)
            try fileSystem.sync("/a/b/f")
            try fileSystem.sync("/a/b")
            run.acknowledge("file")
        },
        .wrong("fsync of the file only in a chain of new directories", holdsUnder: "freshInode", .chain) {
            fileSystem, run in
            try fileSystem.makeDirectory("/a")
            try fileSystem.makeDirectory("/a/b")
            try fileSystem.put("/a/b/f", one)
            try fileSystem.sync("/a/b/f")
            run.acknowledge("file")
        },
        .wrong("fsync of the innermost directory only", holdsUnder: "freshInode", .chain) { fileSystem, run in
            try fileSystem.makeDirectory("/a")
            try fileSystem.makeDirectory("/a/b")
            try fileSystem.put("/a/b/f", one)
            try fileSystem.sync("/a/b/f")
            try fileSystem.sync("/a/b")
            run.acknowledge("file")
        },
        .wrong("leave one directory of a chain without fsync", holdsUnder: "freshInode", .chain) { fileSystem, run in
            try fileSystem.makeDirectory("/a")
            try fileSystem.sync("/")
            try fileSystem.makeDirectory("/a/b")
            try fileSystem.put("/a/b/f", one)
            try fileSystem.sync("/a/b/f")
            try fileSystem.sync("/a/b")
            run.acknowledge("file")
        },
        .wrong("fsync of the directories but not of the file", .chain) { fileSystem, run in
            try fileSystem.makeDirectory("/a")
            try fileSystem.makeDirectory("/a/b")
            try fileSystem.put("/a/b/f", one)
            try fileSystem.sync("/a/b")
            try fileSystem.sync("/a")
            try fileSystem.sync("/")
            run.acknowledge("file")
        },
    ]
}
