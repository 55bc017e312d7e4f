#if S3
import Foundation
import Testing

@testable import ForgeS3

@Suite("Documents and times of S3")
struct S3DocumentTests {
    @Test("a document is read with its elements, references and comments")
    func document() throws {
        let text = """
            <?xml version="1.0" encoding="UTF-8"?>
            <!-- a -->
            <Result xmlns="http://s3/">
              <A x='1>2'>a&amp;b&#x1F600;&#65;&lt;</A><B/><A>2<!-- c --></A>
            </Result>
            """
        let document = try #require(S3Document(text.utf8))
        #expect(document.name == "Result")
        #expect(document.all("A").map(\.text) == ["a&b😀A<", "2"])
        #expect(document["B"]?.text == "")
    }

    @Test(
        "a document that is cut, unbalanced, too deep or has a document type is refused",
        arguments: [
            "", "<a>", "<a></b>", "<a>&x;</a>", "<a>&#0;x</a>&", "<a/><b/>", "<!DOCTYPE a []><a/>", "<a>&amp</a>",
            "text",
            String(repeating: "<a>", count: 40) + String(repeating: "</a>", count: 40),
        ])
    func invalid(_ text: String) { #expect(S3Document(text.utf8) == nil) }

    @Test("every cut of a document is refused")
    func cut() {
        let text = Array("<a b=\"c\"><d>&amp;</d><!-- e --></a>".utf8)
        for count in 0..<text.count { #expect(S3Document(text.prefix(count)) == nil, "\(count) bytes") }
    }

    @Test("a text is escaped and read back; one that XML cannot represent is refused")
    func escaping() throws {
        let text = "a<b>&\"'\r\n\té"
        let escaped = try #require(S3Document.escaping(text))
        #expect(S3Document("<a>\(escaped)</a>".utf8)?.text == text)
        #expect(S3Document.escaping("a\u{FFFE}") == nil)
        #expect(S3Document.escaping("\u{1}") == nil)
    }

    @Test("times are read and written")
    func times() {
        let date = Date(timeIntervalSince1970: 1_369_353_600)
        #expect(S3Date.stamp(date) == "20130524T000000Z")
        #expect(S3Date.header("Fri, 24 May 2013 00:00:00 GMT") == date)
        #expect(S3Date.listed("2013-05-24T00:00:00.000Z") == date)
        #expect(S3Date.listed("2013-05-24T00:00:00Z") == date)
        #expect(S3Date.listed("2013-05-24T02:00:00.5+02:00") == date)
        for text in ["", "Fri, 24 Foo 2013 00:00:00 GMT", "Fri, 24 May 2013 00:00:00 CET", "24"] {
            #expect(S3Date.header(text) == nil)
            #expect(S3Date.listed(text) == nil)
        }
    }

    @Test("Retry-After is a number of seconds or a date")
    func wishes() {
        let now = Date(timeIntervalSince1970: 1_369_353_600)
        #expect(S3Attempt.wish("3", at: now) == .seconds(3))
        #expect(S3Attempt.wish("Fri, 24 May 2013 00:00:07 GMT", at: now) == .seconds(7))
        #expect(S3Attempt.wish("-3", at: now) == .zero)
        #expect(S3Attempt.wish("soon", at: now) == nil)
    }
}
#endif
