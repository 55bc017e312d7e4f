extension InMemoryFileSystem {
    /// The content of a FIFO, in pages as on Linux (`fs/pipe.c`), so that it is full at the same byte.
    struct Pipe {
        private struct Page {
            var bytes: [UInt8]
            var start = 0
        }

        private static let pageSize = 4096
        private static let maximumPageCount = 16
        private var pages: [Page] = []

        var isEmpty: Bool { pages.isEmpty }

        /// Removes as many bytes as there are and fit, in FIFO order.
        mutating func read(into buffer: UnsafeMutableRawBufferPointer) -> Int {
            var done = 0
            var emptied = 0
            while done < buffer.count, emptied < pages.count {
                let page = pages[emptied]
                let count = min(buffer.count - done, page.bytes.count - page.start)
                UnsafeMutableRawBufferPointer(rebasing: buffer[done...])
                    .copyBytes(from: page.bytes[page.start..<page.start + count])
                done += count
                pages[emptied].start += count
                if pages[emptied].start == page.bytes.count { emptied += 1 }
            }
            pages.removeFirst(emptied)
            return done
        }

        /// Accepts as many bytes as there are pages for; the rest of the last page is used only for the odd end of a
        /// write, and only if that fits completely. So up to a page is written completely or not at all.
        mutating func write(_ buffer: UnsafeRawBufferPointer) -> Int {
            var done = 0
            let odd = buffer.count % Self.pageSize
            if odd > 0, let last = pages.indices.last, pages[last].bytes.count + odd <= Self.pageSize {
                pages[last].bytes += buffer[..<odd]
                done = odd
            }
            while done < buffer.count, pages.count < Self.maximumPageCount {
                let count = min(Self.pageSize, buffer.count - done)
                pages.append(Page(bytes: Array(buffer[done..<done + count])))
                done += count
            }
            return done
        }
    }
}
