import Synchronization

/// A simple alternative for tests: a tree of dictionaries by name, behind a lock.
final class DictionaryTree: Sendable {
    private final class Node {
        var children: [String: Node] = [:]
        var content: [UInt8]?
    }

    struct Missing: Error {}

    private let root = Mutex(Node())

    func createDirectory(_ path: String) throws {
        try root.withLock { root in
            let (parent, name) = try Self.parent(path, root)
            parent.children[name] = Node()
        }
    }

    func write(_ content: [UInt8], to path: String) throws {
        try root.withLock { root in
            let (parent, name) = try Self.parent(path, root)
            let node = parent.children[name] ?? Node()
            node.content = content
            parent.children[name] = node
        }
    }

    func read(_ path: String) throws -> [UInt8] {
        try root.withLock { root in
            let (parent, name) = try Self.parent(path, root)
            guard let content = parent.children[name]?.content else { throw Missing() }
            return content
        }
    }

    func list(_ path: String) throws -> [String] {
        try root.withLock { root in
            let (parent, name) = try Self.parent(path, root)
            guard let node = parent.children[name] else { throw Missing() }
            return Array(node.children.keys)
        }
    }

    private static func parent(_ path: String, _ root: Node) throws -> (Node, String) {
        var parts = path.split(separator: "/")
        guard let name = parts.popLast() else { throw Missing() }
        var node = root
        for part in parts {
            guard let child = node.children[String(part)] else { throw Missing() }
            node = child
        }
        return (node, String(name))
    }
}
