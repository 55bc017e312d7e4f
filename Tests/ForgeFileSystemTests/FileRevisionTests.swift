import ForgeFileSystem
import Foundation
import Testing

@Suite("The revision of a file")
struct FileRevisionTests {
    @Test("has a text from which it is made again")
    func text() throws {
        let memory = InMemoryFileSystem()
        try memory.write(Data("x".utf8), to: URL(filePath: "/f"))
        let revision = FileRevision(try memory.status("/f"))
        #expect(FileRevision(rawValue: revision.rawValue) == revision)
        #expect(try JSONDecoder().decode(FileRevision.self, from: JSONEncoder().encode(revision)) == revision)
    }

    @Test(
        "of another store keeps its text",
        arguments: [
            "", "\"0815\"", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.+2.3.4", "99999999999999999999.1.1.1", "1..2.3",
        ])
    func foreign(_ text: String) {
        #expect(FileRevision(rawValue: text).rawValue == text)
    }

    @Test("differs whenever one of the numbers differs")
    func distinct() {
        let texts = ["1.2.3.4", "2.2.3.4", "1.3.3.4", "1.2.4.4", "1.2.3.5", "1.-2.3.4"]
        #expect(Set(texts.map { FileRevision(rawValue: $0) }).count == texts.count)
        #expect(texts.map { FileRevision(rawValue: $0).rawValue } == texts)
    }
}
