import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage

private let old = letters("o", 1300)
private let new = letters("n", 1700)

extension Scene {
    /// A file to be replaced as a whole.
    static let replacement = Scene { fileSystem in
        try fileSystem.makeDirectory("/d")
        try fileSystem.makeDirectory("/t")
        try fileSystem.put("/d/f", old)
    } recover: { fileSystem, crash in
        guard let content = try fileSystem.content("/d/f") else { throw Broken("the file is gone") }
        try demand(content == old || content == new, "neither old nor new: \(content.count) bytes")
        guard crash.acknowledged.contains("new") else { return }
        try demand(content == new, "the new content is lost")
    }

    /// A file to be created once.
    static let creation = Scene { fileSystem in
        try fileSystem.makeDirectory("/d")
    } recover: { fileSystem, crash in
        let content = try fileSystem.content("/d/f")
        try demand(content == nil || content == new, "a part of the file: \(content?.count ?? 0) bytes")
        guard crash.acknowledged.contains("new") else { return }
        try demand(content == new, "the new file is lost")
    }

    /// A file whose attributes are to be changed.
    static let attributes = Scene { fileSystem in
        try fileSystem.makeDirectory("/d")
        try fileSystem.put("/d/f", old)
    } recover: { fileSystem, crash in
        guard !crash.acknowledged.isEmpty else { return }
        let status = try fileSystem.status("/d/f")
        try demand(status.permissions == .ownerRead || crash.acknowledged == ["time"], "others can read the secret")
        try demand(status.modified.seconds == 5 || crash.acknowledged == ["mode"], "the time is lost")
    }

    /// A file that is to be replaced by one whose content is the value of an extended attribute.
    static let extendedAttributes = Scene { fileSystem in
        try fileSystem.makeDirectory("/d")
        try fileSystem.put("/d/f", old)
        try fileSystem.setAttribute(of: "/d/f", to: old)
    } recover: { fileSystem, crash in
        let content = try fileSystem.content("/d/f") ?? []
        let file = try fileSystem.open("/d/f")
        let value = try fileSystem.closing(file) { () throws(FileSystemError) in
            try fileSystem.extendedAttribute("content", of: file)
        }
        try demand(content == old || content == new, "a part of the file")
        try demand(value == content, "content and attribute do not belong together")
        guard crash.acknowledged.contains("new") else { return }
        try demand(content == new, "the new file is lost")
    }
}

extension Recipe {
    static let replacements: [Recipe] = [
        .right("replace a file", .replacement) { fileSystem, run in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.sync("/d/tmp")
            try fileSystem.move("/d/tmp", "/d/f")
            try fileSystem.sync("/d")
            run.acknowledge("new")
        },
        .right("replace a file by exchanging it with a spare one", .replacement) { fileSystem, run in
            try fileSystem.put("/d/spare", new)
            try fileSystem.sync("/d/spare")
            try fileSystem.sync("/d")
            try fileSystem.move("/d/spare", "/d/f", .exchanging)
            try fileSystem.sync("/d")
            run.acknowledge("new")
        },
        .right("replace a file after fdatasync", .replacement) { fileSystem, run in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.sync("/d/tmp", .data)
            try fileSystem.move("/d/tmp", "/d/f")
            try fileSystem.sync("/d")
            run.acknowledge("new")
        },
        .right("create a file by linking a temporary one", .creation) { fileSystem, run in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.sync("/d/tmp")
            try fileSystem.link("/d/tmp", to: "/d/f")
            try fileSystem.remove("/d/tmp")
            try fileSystem.sync("/d")
            run.acknowledge("new")
        },
        .wrong("replace without fsync of the temporary file", .replacement) { fileSystem, run in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.move("/d/tmp", "/d/f")
            try fileSystem.sync("/d")
            run.acknowledge("new")
        },
        .wrong("replace without fsync of the directory", .replacement) { fileSystem, run in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.sync("/d/tmp")
            try fileSystem.move("/d/tmp", "/d/f")
            run.acknowledge("new")
        },
        .wrong("replace with fsync of the directory before the rename", .replacement) { fileSystem, run in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.sync("/d/tmp")
            try fileSystem.sync("/d")
            try fileSystem.move("/d/tmp", "/d/f")
            run.acknowledge("new")
        },
        .wrong("cut to nothing and rewrite in place", holdsUnder: never, .replacement) { fileSystem, run in
            try fileSystem.put("/d/f", new)
            try fileSystem.sync("/d/f")
            run.acknowledge("new")
        },
        .wrong("overwrite in place", .replacement) { fileSystem, run in
            try fileSystem.patch("/d/f", new, at: 0)
            try fileSystem.sync("/d/f")
            run.acknowledge("new")
        },
        .wrong("fsync after the rename", .replacement) { fileSystem, run in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.move("/d/tmp", "/d/f")
            try fileSystem.sync("/d/f")
            try fileSystem.sync("/d")
            run.acknowledge("new")
        },
        .wrong("fsync of the old file instead of the temporary one", .replacement) { fileSystem, run in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.sync("/d/f")
            try fileSystem.move("/d/tmp", "/d/f")
            try fileSystem.sync("/d")
            run.acknowledge("new")
        },
        .wrong("fsync before the last write", .replacement) { fileSystem, run in
            try fileSystem.put("/d/tmp", Array(new[..<900]))
            try fileSystem.sync("/d/tmp")
            try fileSystem.patch("/d/tmp", Array(new[900...]))
            try fileSystem.move("/d/tmp", "/d/f")
            try fileSystem.sync("/d")
            run.acknowledge("new")
        },
        .wrong("close instead of fsync", .replacement) { fileSystem, run in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.move("/d/tmp", "/d/f")
            run.acknowledge("new")
        },
        .wrong("unlink the old file before the rename", holdsUnder: never, .replacement) { fileSystem, run in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.sync("/d/tmp")
            try fileSystem.remove("/d/f")
            try fileSystem.move("/d/tmp", "/d/f")
            try fileSystem.sync("/d")
            run.acknowledge("new")
        },
        .wrong("link instead of rename", holdsUnder: never, .replacement) { fileSystem, run in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.sync("/d/tmp")
            try fileSystem.remove("/d/f")
            try fileSystem.link("/d/tmp", to: "/d/f")
            try fileSystem.remove("/d/tmp")
            try fileSystem.sync("/d")
            run.acknowledge("new")
        },
        .wrong("move the old file aside first", holdsUnder: never, .replacement) { fileSystem, run in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.sync("/d/tmp")
            try fileSystem.move("/d/f", "/d/backup")
            try fileSystem.move("/d/tmp", "/d/f")
            try fileSystem.sync("/d")
            run.acknowledge("new")
        },
        .wrong("temporary file in another directory, whose names alone are synchronised", .replacement) {
            fileSystem, run in
            try fileSystem.put("/t/tmp", new)
            try fileSystem.sync("/t/tmp")
            try fileSystem.sync("/t")
            try fileSystem.move("/t/tmp", "/d/f")
            run.acknowledge("new")
        },
        .wrong("copy a durable temporary file over the old one", .replacement) { fileSystem, run in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.sync("/d/tmp")
            try fileSystem.sync("/d")
            try fileSystem.patch("/d/f", new, at: 0)
            try fileSystem.sync("/d/f")
            run.acknowledge("new")
        },
        .wrong("try fsync again after it failed", .replacement) { fileSystem, run in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.failSync("/d/tmp")
            try fileSystem.sync("/d/tmp")
            try fileSystem.move("/d/tmp", "/d/f")
            try fileSystem.sync("/d")
            run.acknowledge("new")
        },
        .wrong("try fsync of the directory again after it failed", .replacement) { fileSystem, run in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.sync("/d/tmp")
            try fileSystem.move("/d/tmp", "/d/f")
            try fileSystem.failSync("/d")
            try fileSystem.sync("/d")
            run.acknowledge("new")
        },
        .wrong("exchange with a spare file that was not synchronised", .replacement) { fileSystem, run in
            try fileSystem.put("/d/spare", new)
            try fileSystem.sync("/d")
            try fileSystem.move("/d/spare", "/d/f", .exchanging)
            try fileSystem.sync("/d")
            run.acknowledge("new")
        },
        .wrong("exchange and acknowledge without fsync of the directory", .replacement) { fileSystem, run in
            try fileSystem.put("/d/spare", new)
            try fileSystem.sync("/d/spare")
            try fileSystem.sync("/d")
            try fileSystem.move("/d/spare", "/d/f", .exchanging)
            run.acknowledge("new")
        },
        .wrong("write again into a file that was already renamed into place", holdsUnder: never, .replacement) {
            fileSystem, run in
            try fileSystem.put("/d/tmp", Array(new[..<900]))
            try fileSystem.sync("/d/tmp")
            try fileSystem.move("/d/tmp", "/d/f")
            try fileSystem.sync("/d")
            try fileSystem.patch("/d/f", Array(new[900...]))
            try fileSystem.sync("/d/f")
            run.acknowledge("new")
        },
        .wrong("exclusive create without fsync of the file", holdsUnder: never, .creation) { fileSystem, run in
            try fileSystem.put("/d/f", new, [.create, .exclusiveCreate])
            try fileSystem.sync("/d")
            run.acknowledge("new")
        },
        .wrong("link before the temporary file is synchronised", .creation) { fileSystem, run in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.link("/d/tmp", to: "/d/f")
            try fileSystem.sync("/d/tmp")
            try fileSystem.sync("/d")
            run.acknowledge("new")
        },
        .wrong("rename to a new name without fsync of the directory", .creation) { fileSystem, run in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.sync("/d/tmp")
            try fileSystem.move("/d/tmp", "/d/f")
            run.acknowledge("new")
        },
        .wrong("change the mode after fsync", .attributes) { fileSystem, run in
            try fileSystem.sync("/d/f")
            try fileSystem.setPermissions(.ownerRead, of: .path("/d/f"))
            run.acknowledge("mode")
        },
        .wrong("set the time and call fdatasync", .attributes) { fileSystem, run in
            try fileSystem.setTimes(accessed: nil, modified: FileTime(seconds: 5), of: .path("/d/f"))
            try fileSystem.sync("/d/f", .data)
            run.acknowledge("time")
        },
        .right("set the time and call fsync", .attributes) { fileSystem, run in
            try fileSystem.setTimes(accessed: nil, modified: FileTime(seconds: 5), of: .path("/d/f"))
            try fileSystem.sync("/d/f")
            run.acknowledge("time")
        },
        .wrong("change the mode before fdatasync", .attributes) { fileSystem, run in
            try fileSystem.setPermissions(.ownerRead, of: .path("/d/f"))
            try fileSystem.sync("/d/f", .data)
            run.acknowledge("mode")
        },
        .right("set an extended attribute before fsync and rename", .extendedAttributes) { fileSystem, run in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.setAttribute(of: "/d/tmp", to: new)
            try fileSystem.sync("/d/tmp")
            try fileSystem.move("/d/tmp", "/d/f")
            try fileSystem.sync("/d")
            run.acknowledge("new")
        },
        .wrong("set an extended attribute before fdatasync and rename", .extendedAttributes) { fileSystem, run in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.setAttribute(of: "/d/tmp", to: new)
            try fileSystem.sync("/d/tmp", .data)
            try fileSystem.move("/d/tmp", "/d/f")
            try fileSystem.sync("/d")
            run.acknowledge("new")
        },
        .wrong("set an extended attribute after fsync", .extendedAttributes) { fileSystem, run in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.sync("/d/tmp")
            try fileSystem.setAttribute(of: "/d/tmp", to: new)
            try fileSystem.move("/d/tmp", "/d/f")
            try fileSystem.sync("/d")
            run.acknowledge("new")
        },
        .wrong("set an extended attribute after the rename", holdsUnder: never, .extendedAttributes) {
            fileSystem, run in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.sync("/d/tmp")
            try fileSystem.move("/d/tmp", "/d/f")
            try fileSystem.setAttribute(of: "/d/f", to: new)
            try fileSystem.sync("/d/f")
            try fileSystem.sync("/d")
            run.acknowledge("new")
        },
    ]
}

extension InMemoryFileSystem {
    fileprivate func setAttribute(of path: POSIXPath, to value: [UInt8]) throws(FileSystemError) {
        let file = try open(path)
        try closing(file) { () throws(FileSystemError) in
            try setExtendedAttribute("content", to: value, of: file)
        }
    }
}
