import ForgeFileSystem
import SystemPackage

extension ConformanceChecks {
    /// The modes of files that recipes create: the requested mode, never the rights of another file's owner.
    static let fileSystemPrivileges: [FileSystemCheck] = [
        holds("a copied tree has no set-user-ID and no set-group-ID bit") { tree in
            try tree.create("d/s/x", "tool")
            let modes: [(name: String, mode: FilePermissions.RawValue)] = [
                ("s/x", 0o6755), ("s", 0o3775), ("", 0o6711),
            ]
            for (name, mode) in modes {
                try tree.fileSystem.setPermissions(FilePermissions(rawValue: mode), of: .path(tree("d/" + name)))
            }
            try tree.fileSystem.copyTree(tree("d"), to: tree("copy"))
            for (name, mode) in modes {
                let old = try tree.status("d/" + name).permissions
                try expectEqual(old.rawValue, mode, "the permissions of the original \(name)")
                let new = try tree.status("copy/" + name).permissions
                try expectEqual(new.rawValue, mode & 0o1777, "the permissions of the copy \(name)")
            }
        },
        holds("directories have the requested mode, even below a set-group-ID directory") { tree in
            // Only Linux passes the bit on.
            guard !tree.isDarwin else { return }
            try tree.fileSystem.setPermissions(FilePermissions(rawValue: 0o2777), of: .path(tree("e")))
            try tree.fileSystem.makeDirectories(tree("e/a/b"))
            try tree.fileSystem.makeDirectories(tree("e/c"), permissions: FilePermissions(rawValue: 0o2750))
            try tree.fileSystem.copyTree(tree("d"), to: tree("e/copy"))
            let modes: [(name: String, mode: FilePermissions.RawValue)] = [
                ("e/a", 0o700), ("e/a/b", 0o700), ("e/c", 0o2750), ("e/copy", 0o755), ("e/copy/s", 0o755),
            ]
            for (name, mode) in modes {
                try expectEqual(try tree.status(name).permissions.rawValue, mode, "the permissions of \(name)")
            }
        },
    ]
}
