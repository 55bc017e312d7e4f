import CForgeKVStore

/// Memory of a table; large pieces are asked for in large pages.
enum TableMemory {
    /// The size of a large page.
    static let largePage = 2 << 20

    /// Memory whose address is a multiple of 64.
    static func allocate(_ size: Int) -> UnsafeMutableRawPointer {
        guard size >= largePage else { return .allocate(byteCount: size, alignment: 64) }
        let size = (size + largePage - 1) / largePage * largePage
        let address = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: largePage)
        forge_prefer_large_pages(address, size)
        return address
    }
}
