#if os(Linux)
import ForgeFileSystem
import SystemPackage

/// The nodes that the kernel knows, by inode number, with their lookup counts.
struct NodeTable {
    private struct Known {
        var descriptor: Descriptor
        var lookUpCount: UInt64
    }

    private var known: [UInt64: Known]

    init(root: Descriptor) {
        known = [FUSEProtocol.rootNode: Known(descriptor: root, lookUpCount: 1)]
    }

    subscript(_ number: UInt64) -> Descriptor? { known[number]?.descriptor }

    /// Counts a lookup of a node; returns the redundant descriptor if the node was known already.
    mutating func add(_ number: UInt64, _ descriptor: Descriptor) -> Descriptor? {
        guard known[number] != nil else {
            known[number] = Known(descriptor: descriptor, lookUpCount: 1)
            return nil
        }
        known[number]?.lookUpCount += 1
        return descriptor
    }

    /// Subtracts from a node's lookup count; returns the descriptor to close once the count is zero.
    mutating func forget(_ number: UInt64, count: UInt64) -> Descriptor? {
        guard number != FUSEProtocol.rootNode, let node = known[number] else { return nil }
        guard node.lookUpCount <= count else {
            known[number]?.lookUpCount -= count
            return nil
        }
        known[number] = nil
        return node.descriptor
    }
}
#endif
