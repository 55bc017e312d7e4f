import CForgeKVStore

/// Memory of a table; large pieces are asked for in large pages.
enum TableMemory {
    /// The size of a large page.
    static let largePage = 2 << 20

    /// The size of the next piece for objects that take `total` bytes so far: large pages only once they would leave at
    /// most a quarter of the memory unused, because the system provides a large page as a whole.
    static func slabSize(after total: Int) -> Int {
        total >= 4 * largePage ? largePage : min(max(total, 1 << 12), largePage / 4)
    }

    /// Memory whose address is a multiple of 64.
    static func allocate(_ size: Int) -> UnsafeMutableRawPointer {
        guard size >= largePage else { return .allocate(byteCount: size, alignment: 64) }
        let size = (size + largePage - 1) / largePage * largePage
        let address = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: largePage)
        forge_prefer_large_pages(address, size)
        return address
    }
}
