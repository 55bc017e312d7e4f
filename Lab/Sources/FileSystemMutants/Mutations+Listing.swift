import ForgeFileSystem
import Synchronization
import SystemPackage

extension Mutation {
    static let listing: [Mutation] = [
        listing("listings are sorted") { $0.sort { $0.name.bytes.lexicographicallyPrecedes($1.name.bytes) } },
        listing("listings hold `.`") { $0.append(DirectoryEntry(name: ".", type: .directory, inode: 1)) },
        listing("listings hold `..`") { $0.insert(DirectoryEntry(name: "..", type: .directory, inode: 1), at: 0) },
        listing("a long listing ends at 100 names") { $0 = Array($0.prefix(100)) },
        listing("a listing contains a name twice") { if let first = $0.first { $0.append(first) } },
        listing("a listing omits the last name") { if $0.count > 1 { $0.removeLast() } },
        listing("a listing reports every entry as a file") { entries in
            for index in entries.indices { entries[index].type = .regular }
        },
        listing("a listing reports links as files") { entries in
            for index in entries.indices where entries[index].type == .symbolicLink { entries[index].type = .regular }
        },
        listing("a listing has no inode numbers") { entries in
            for index in entries.indices { entries[index].inode = 0 }
        },
        listing("a listing converts names to text") { entries in
            for index in entries.indices { entries[index].name = POSIXPath(String(entries[index].name)) }
        },
        Mutation("a file can be listed") {
            $0.entries = { (tree, descriptor) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try tree.base.entries(of: descriptor)
                } catch  where error.errno == .notDirectory {
                    return []
                }
            }
        },
        Mutation("listing a file moves its offset") {
            $0.entries = { (tree, descriptor) throws(FileSystemError) in
                if tree.call(of: descriptor) != nil { try tree.move(descriptor, to: 0) }
                return try tree.base.entries(of: descriptor)
            }
        },
        Mutation("a removed directory can be listed") {
            $0.entries = { (tree, descriptor) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try tree.base.entries(of: descriptor)
                } catch  where error.errno == .noSuchFileOrDirectory {
                    return []
                }
            }
        },
        Mutation("an invalid descriptor has an empty listing") {
            $0.entries = { (tree, descriptor) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try tree.base.entries(of: descriptor)
                } catch  where error.errno == .badFileDescriptor {
                    return []
                }
            }
        },
        Mutation("a directory can be listed only once") {
            $0.entries = { (tree, descriptor) throws(FileSystemError) in
                let inode = try tree.base.status(of: .descriptor(descriptor)).inode
                let isKnown = tree.notes.cut.withLock { $0.updateValue([], forKey: inode) != nil }
                return isKnown ? [] : try tree.base.entries(of: descriptor)
            }
        },
    ]

    private static func listing(
        _ description: String, _ change: @escaping @Sendable (inout [DirectoryEntry]) -> Void
    ) -> Mutation {
        Mutation(description) {
            $0.entries = { (tree, descriptor) throws(FileSystemError) in
                var entries = try tree.base.entries(of: descriptor)
                change(&entries)
                return entries
            }
        }
    }
}
