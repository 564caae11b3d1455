#!/usr/bin/python3
"""A bucket's settings in the console."""
import json

from console_case import InBrowser, main


class Settings(InBrowser):
    @classmethod
    def server_args(cls, home):
        return ("--set", f"events.targets=shelf=file://{home / 'events.jsonl'}")

    def save(self, what, text):
        """Enters a text into a document's editor and saves it."""
        browser = self.browser
        label = f"The bucket's {what}"
        browser.wait(f"Boolean({browser.field(label)})", label)
        browser.run("document.getElementById('announcer').textContent = ''")
        browser.run(f"{browser.field(label)}.scrollIntoView({{block: 'center'}})")
        browser.fill(label, text)
        button = f"{browser.field(label)}.closest('section').querySelector('.button.main')"
        browser.wait(f"!{button}.disabled")
        browser.run(f"{button}.click()")
        browser.wait("document.getElementById('announcer').textContent === 'Saved'", f"{what} saved")

    def test_an_address_that_names_an_object_shows_no_settings_of_it(self):
        browser = self.browser
        self.bucket("photos")
        self.s3.put_object(Bucket="photos", Key="precious.db", Body=b"precious")
        for place in ("settings", "objects"):
            self.go(f"#/buckets/photos%2Fprecious.db/{place}")
            browser.sees("is no name of a bucket")
            browser.wait("!document.body.innerText.includes('Writes are acknowledged')")
        self.assertEqual(self.s3.get_object(Bucket="photos", Key="precious.db")["Body"].read(), b"precious")

    def test_notifications_and_the_retention_of_new_versions_are_edited(self):
        browser = self.browser
        self.bucket("kept", ObjectLockEnabledForBucket=True)
        self.go("#/buckets/kept/settings")
        self.save("notification", "<NotificationConfiguration><QueueConfiguration><Id>new</Id><Queue>arn:verbena:sqs::shelf:file</Queue><Event>s3:ObjectCreated:*</Event>"
                  "</QueueConfiguration></NotificationConfiguration>")
        self.assertEqual([one["Id"] for one in self.s3.get_bucket_notification_configuration(Bucket="kept")["QueueConfigurations"]], ["new"])
        self.picture("notifications")
        self.assert_accessible("notifications")
        field = browser.field("The bucket's notification")
        browser.run(f"Array.from({field}.closest('section').querySelectorAll('button')).find((b) => b.innerText === 'Remove').click()")
        browser.wait(f"{field}.value === ''", "no notifications")
        self.assertNotIn("QueueConfigurations", self.s3.get_bucket_notification_configuration(Bucket="kept"))
        self.save("object-lock", "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>3</Days></DefaultRetention></Rule>"
                  "</ObjectLockConfiguration>")
        rule = self.s3.get_object_lock_configuration(Bucket="kept")["ObjectLockConfiguration"]["Rule"]["DefaultRetention"]
        self.assertEqual((rule["Mode"], rule["Days"]), ("GOVERNANCE", 3))
        self.picture("locks")

    def test_settings_are_edited_and_mistakes_are_shown_at_their_place(self):
        browser = self.browser
        self.bucket("rules")
        self.go("#/buckets/rules/settings")
        browser.choose("Writes are acknowledged", "memory")
        browser.wait("document.querySelector('.badge').innerText === 'memory'")
        self.assertEqual(self.s3.head_bucket(Bucket="rules")["ResponseMetadata"]["HTTPHeaders"]["x-verbena-durability"], "memory")
        browser.choose("Old versions", "Enabled")
        browser.wait("document.getElementById('announcer').textContent === 'Versions: Enabled'")
        self.assertEqual(self.s3.get_bucket_versioning(Bucket="rules")["Status"], "Enabled")
        browser.fill("The bucket's policy", '{\n  "Version": "2012-10-17",\n  "Statement": [,]\n}')
        browser.sees("line 3, column 17")
        browser.fill("The bucket's policy", '{\n  "Version": "2012-10-17",\n  "Statement": [{"Effect": "Allow", "Principal": "*",\n    "Action": "s3:NoSuchThing", "Resource": "arn:aws:s3:::rules/*"}]\n}')
        save = f"{browser.field('''The bucket's policy''')}.closest('section').querySelector('.button.main')"
        browser.wait(f"!{save}.disabled")
        browser.run(f"{save}.click()")
        browser.wait("Boolean(document.querySelector('.problem[role=alert]'))", "the server's refusal")
        self.picture("policy-error")
        browser.fill("The bucket's policy", json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
                                                                                              "Resource": "arn:aws:s3:::rules/*"}]}))
        browser.run(f"{save}.click()")
        browser.wait("document.getElementById('announcer').textContent === 'Saved'")
        self.assertIn("s3:GetObject", self.s3.get_bucket_policy(Bucket="rules")["Policy"])
        for what, read in (("lifecycle", lambda: self.s3.get_bucket_lifecycle_configuration(Bucket="rules")["Rules"]),
                           ("cors", lambda: self.s3.get_bucket_cors(Bucket="rules")["CORSRules"])):
            section = f"{browser.field(f'''The bucket's {what}''')}.closest('section')"
            browser.wait(f"Boolean({section})")
            browser.run("document.getElementById('announcer').textContent = ''")
            browser.run(f"Array.from({section}.querySelectorAll('button')).find((b) => b.innerText === 'Begin with an example').click()")
            browser.wait(f"!{section}.querySelector('.button.main').disabled")
            browser.run(f"{section}.querySelector('.button.main').click()")
            browser.wait("document.getElementById('announcer').textContent === 'Saved'", f"{what} saved")
            self.assertEqual(len(read()), 1)
            browser.run(f"{section}.scrollIntoView()")
            self.picture(what)
        browser.run("scrollTo(0, 0); document.querySelector('main').scrollTop = 0")
        self.picture("settings")
        self.assert_accessible("settings")


if __name__ == "__main__":
    main()
